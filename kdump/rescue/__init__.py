"""The verbs salvage and carve: what is intact in damaged bytes is handed back."""
