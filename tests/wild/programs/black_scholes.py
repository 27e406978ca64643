"""Black-Scholes book: value of a portfolio of calls and puts."""

import numpy as np
from scipy.special import ndtr


def portfolio(spot, vol, strikes, expiries, quantity, is_call, rate=0.02):
    d1 = (np.log(spot / strikes) + (rate + 0.5 * vol**2) * expiries) / (vol * np.sqrt(expiries))
    d2 = d1 - vol * np.sqrt(expiries)
    disc = np.exp(-rate * expiries)
    call = spot * ndtr(d1) - strikes * disc * ndtr(d2)
    put = call - spot + strikes * disc
    return np.sum(quantity * np.where(is_call, call, put))
