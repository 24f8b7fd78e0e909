"""Attacks on runs and studies, by real processes: kills, damage, full disks, two writers, signals (`make chaos`).

Every attack is judged against runs that nobody disturbed: in the end the rows are the same to the bit, none is lost,
there twice or torn; what is refused is one line with status 2. Randomness is a function of the seed that is printed,
the attack's name and the number of the try, so a failure can be repeated: `python -m chaos --seed S --only NAME`.
"""
