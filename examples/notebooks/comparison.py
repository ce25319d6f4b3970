# %% [markdown]
# # Compare methods, and show the result
#
# This page is a notebook: a file of Python with cells, `examples/notebooks/comparison.py`, which
# Jupyter opens with [jupytext](https://jupytext.readthedocs.io). Every output below was made when
# the site was built.
#
# Twenty clients, half of them eight times slower than the others, learn to read digits.

# %%
import favano

fleet = favano.Fleet.two_speeds(20, fast=0.5)
keys = {"selected": 5, "horizon": 3000, "learning_rate": 0.1, "seeds": 3, "progress": False}
compared = favano.compare(["favano", "fedbuff", "fedavg"], "digits", fleet, **keys)
compared

# %% [markdown]
# A comparison shows its table and its curves. One of its results:

# %%
compared.results[0]

# %% [markdown]
# `plot` is a figure of matplotlib with the spread over seeds, against time, steps or bits:

# %%
compared.plot("loss")

# %% [markdown]
# Numbers are columns, and a table for a paper is LaTeX:

# %%
print(compared.table(target=0.5))

# %%
print(compared.to_latex(target=0.5))
