"""Studies: environments × variants × seeds as one thing that is planned, run, watched and turned into an answer.

Data flows one way: definition → plan → execution (local or Ray) through `lookrep.training.loop` → metrics on disk →
results → statistics → figures → report. What analyses never imports what trains.
"""
