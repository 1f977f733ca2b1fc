"""Two or four of the four bits."""


def answer(x):
    return x[2] + x[5] + x[8] + x[11] in (2, 4)
