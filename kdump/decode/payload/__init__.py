"""Keys and payloads by the schemas of a registry: frames, schemas, and the process that decodes."""
