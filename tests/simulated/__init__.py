"""A GPU for tests of the racing process: the driver's calls over host memory, with a clock that is made up."""
