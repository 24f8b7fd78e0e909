"""Running a study's populations: on this machine or on a Ray cluster, and watching them."""
