"""What holds for all tests: property tests are the same in each run, so that no landing hangs on luck."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
