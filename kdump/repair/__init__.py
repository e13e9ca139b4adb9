"""The verbs that write: nothing is changed but by a plan, under the lock, with what it replaces saved before."""
