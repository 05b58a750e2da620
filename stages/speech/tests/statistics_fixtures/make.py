"""Makes scipy.json beside this file: figures of scipy and numpy for tests/statistics.rs.

    python3 -m venv /tmp/scipy && /tmp/scipy/bin/pip install scipy==1.15.3 numpy==2.4.6
    /tmp/scipy/bin/python stages/speech/tests/statistics_fixtures/make.py

The file also says which versions made it.
"""

import json
from pathlib import Path

import numpy
import scipy
from scipy import optimize, stats

RESAMPLES = 100_000
CONFIDENCE = 0.9


def measured(random, sentences, mean, share_broken):
    """Error rates of sentences: most have few, some break."""
    errors = random.gamma(1.0, mean, sentences)
    broken = random.random(sentences) < share_broken
    return numpy.round(numpy.where(broken, random.uniform(0.2, 0.8, sentences), errors), 4)


def paired(random):
    base = measured(random, 80, 0.05, 0.03)
    own = numpy.round(0.5 * base + measured(random, 80, 0.03, 0.02), 4)
    figures = {
        "mean": lambda a, b, axis=-1: numpy.mean(a, axis=axis) - numpy.mean(b, axis=axis),
        "median": lambda a, b, axis=-1: numpy.median(a, axis=axis) - numpy.median(b, axis=axis),
        "p90": lambda a, b, axis=-1: numpy.quantile(a, 0.9, axis=axis)
        - numpy.quantile(b, 0.9, axis=axis),
    }
    found = {}
    for name, figure in figures.items():
        result = stats.bootstrap(
            (own, base), figure, paired=True, vectorized=True, method="percentile",
            n_resamples=RESAMPLES, confidence_level=CONFIDENCE, batch=1000,
            rng=numpy.random.default_rng(1),
        )
        found[name] = {
            "value": float(figure(own, base)),
            "low": float(result.confidence_interval.low),
            "high": float(result.confidence_interval.high),
            "error": float(result.standard_error),
        }
    return {"base": base.tolist(), "own": own.tolist(), "figures": found}


def simultaneous(random):
    """The bounds of five means by the largest studentised deviation."""
    candidates = numpy.round(random.normal(0.0, [1.0, 1.0, 2.0, 0.5, 1.0], (60, 5)), 4)
    values = candidates.mean(axis=0)
    draws = numpy.stack(
        [candidates[random.integers(0, 60, 60)].mean(axis=0) for _ in range(RESAMPLES)]
    )
    errors = draws.std(axis=0, ddof=1)
    deviations = (draws - values) / errors
    tail = 1 - (1 - CONFIDENCE) / 2
    up = numpy.quantile(deviations.max(axis=1), tail)
    down = numpy.quantile((-deviations).max(axis=1), tail)
    return {
        "candidates": candidates.T.tolist(),
        "low": (values - down * errors).tolist(),
        "high": (values + up * errors).tolist(),
        "errors": errors.tolist(),
    }


def bradley_terry(random):
    """The maximum of the log posterior, and the inverse of its second derivatives."""
    strengths, prior = [1.0, 0.3, 0.0, -0.8], 1.0
    wins = numpy.zeros((4, 4))
    for i in range(4):
        for j in range(i):
            won = random.binomial(12, 1 / (1 + numpy.exp(strengths[j] - strengths[i])))
            wins[i, j], wins[j, i] = won, 12 - won
    wins[3, :] = 0.0  # the last one never wins

    def loss(values):
        differences = values[:, None] - values[None, :]
        return (wins * numpy.logaddexp(0, -differences)).sum() + (values**2).sum() / (2 * prior**2)

    found = optimize.minimize(loss, numpy.zeros(4), method="BFGS", options={"gtol": 1e-10})
    values = found.x
    chance = 1 / (1 + numpy.exp(values[None, :] - values[:, None]))
    weights = (wins + wins.T) * chance * (1 - chance)
    information = numpy.diag(weights.sum(axis=1) + prior**-2) - weights
    return {
        "wins": wins.tolist(),
        "prior": prior,
        "values": values.tolist(),
        "covariance": numpy.linalg.inv(information).tolist(),
    }


def main():
    random = numpy.random.default_rng(20261123)
    figures = {
        "made_with": {"scipy": scipy.__version__, "numpy": numpy.__version__},
        "confidence": CONFIDENCE,
        "paired": paired(random),
        "simultaneous": simultaneous(random),
        "bradley_terry": bradley_terry(random),
    }
    path = Path(__file__).with_name("scipy.json")
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


main()
