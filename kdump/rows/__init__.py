"""The rows that kdump shows, by subject: what stands here is what users see, in every layout."""
