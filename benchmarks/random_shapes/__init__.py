"""Random configurations of each op: drawn from a seed, checked, measured beside their peers.

draw.py      what is drawn: shapes, modes, dtypes, layouts
resize.py, deform_conv2d.py, my_add.py
             for one configuration: the float64 reference and the candidates
problem.py   what these three give to run.py
run.py       measures, and repeats what is close
result.py    a ratio for each configuration, and statistics of all of them
"""
