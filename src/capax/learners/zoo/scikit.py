"""Learners from scikit-learn, each with good settings for bits. Needs `capax[learners]`.

lasso      logistic regression with an L1 penalty, strength chosen by cross-validation:
           the convex learner that is known to need log T examples (Ng 2004)
ridge      the same with an L2 penalty: rotation invariant, known to need about T
tree       one decision tree, grown until it is pure
forest     100 trees on bootstrap samples
boosting   100 small trees, each on the errors of the earlier ones
neighbours the 5 nearest by Hamming distance
"""

from typing import Any

from capax.errors import InputError

_STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


def lasso() -> Any:
    """L1 logistic regression on bits as signs; C from {0.01 .. 100} by 5-fold cross-validation."""
    return _logistic(1.0)


def ridge() -> Any:
    """L2 logistic regression on bits as signs; C by cross-validation."""
    return _logistic(0.0)


def tree(max_depth: int | None = None) -> Any:
    """A decision tree (Gini impurity)."""
    return _sklearn("tree").DecisionTreeClassifier(max_depth=max_depth)


def forest(trees: int = 100) -> Any:
    """A random forest."""
    return _sklearn("ensemble").RandomForestClassifier(n_estimators=trees)


def boosting(trees: int = 100, max_depth: int = 3) -> Any:
    """Gradient boosting with the logistic loss."""
    made = _sklearn("ensemble").GradientBoostingClassifier
    return made(n_estimators=trees, max_depth=max_depth)


def neighbours(k: int = 5) -> Any:
    """k nearest neighbours."""
    # On bits, Euclid's distance is the root of Hamming's, computed by one matrix product.
    made = _sklearn("neighbors").KNeighborsClassifier
    return made(n_neighbors=k, metric="euclidean", algorithm="brute")


class _Signs:
    """An estimator on signs instead of bits, which also works with too few examples for folds."""

    def __init__(self, l1_ratio: float) -> None:
        self._l1_ratio = l1_ratio
        self._model: Any = None

    def fit(self, X: Any, y: Any) -> "_Signs":
        """Choose C by cross-validation if every fold has both labels, else C = 1."""
        linear = _sklearn("linear_model")
        shared = {"solver": "liblinear", "max_iter": 1000}
        rarest = min((y == 0).sum(), (y == 1).sum())
        if rarest == 0:
            self._model = _Constant(int(y[0]))
            return self
        penalty = _penalty(linear, self._l1_ratio)
        if rarest >= 5:
            model = linear.LogisticRegressionCV(
                Cs=_STRENGTHS, cv=5, scoring="accuracy", **penalty["cv"], **shared
            )
        else:
            model = linear.LogisticRegression(C=1.0, **penalty["plain"], **shared)
        self._model = model.fit(2.0 * X - 1.0, y)
        return self

    def predict(self, X: Any) -> Any:
        """Labels."""
        return self._model.predict(2.0 * X - 1.0)


class _Constant:
    def __init__(self, label: int) -> None:
        self._label = label

    def predict(self, X: Any) -> Any:
        """The one label that was seen."""
        return [self._label] * len(X)


def _logistic(l1_ratio: float) -> Any:
    _sklearn("linear_model")
    return _Signs(l1_ratio)


def _penalty(linear: Any, l1_ratio: float) -> dict[str, dict[str, Any]]:
    """The argument for the penalty: `l1_ratio` from scikit-learn 1.8 on, a name before."""
    parameters = linear.LogisticRegressionCV().get_params()
    if "l1_ratios" in parameters and parameters.get("penalty") == "deprecated":
        extra = {"use_legacy_attributes": False} if "use_legacy_attributes" in parameters else {}
        return {"cv": {"l1_ratios": (l1_ratio,), **extra}, "plain": {"l1_ratio": l1_ratio}}
    name = {"penalty": "l1" if l1_ratio else "l2"}
    return {"cv": name, "plain": name}


def _sklearn(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"sklearn.{module}")
    except ModuleNotFoundError:
        raise InputError(
            "learner: scikit-learn is not installed; pip install 'capax[learners]'"
        ) from None
