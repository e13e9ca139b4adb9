"""The verbs that write: every change follows a plan, under the lock, after a copy of the old bytes is saved."""
