# %% [markdown]
# # Who trains the model? Fleets and plans
#
# A fleet says how fast clients are, and what they meet. This notebook is
# `examples/notebooks/fleets.py`.

# %%
import favano

fleet = favano.Fleet.groups(
    [
        {"name": "desktops", "share": 0.4, "mean": 2},
        {"name": "phones", "share": 0.6, "mean": 10, "availability": "two-state:60:40"},
    ],
    clients=20,
)
fleet

# %% [markdown]
# A plan is the schedule of a run, without training: who is asked when, after how many local steps,
# and which share each group of clients has in the final model. The stroke in the plot is the share
# that is fair.

# %%
plan = favano.plan("favano", "digits", fleet, selected=5, horizon=3000)
plan

# %% [markdown]
# FedBuff takes what comes first, so that fast clients have more of the model:

# %%
favano.plan("fedbuff", "digits", fleet, selected=5, buffer=5, horizon=3000)

# %% [markdown]
# `print` has the same as text, and `plan.clients` one entry for each client:

# %%
print(plan)
plan.clients[0]
