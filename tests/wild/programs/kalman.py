"""Log likelihood of a constant-velocity track under a Kalman filter."""

import numpy as np


class KalmanFilter:
    def __init__(self, F, H, Q, R, x0, P0):
        self.F, self.H, self.Q, self.R = F, H, Q, R
        self.x = x0.copy()
        self.P = P0.copy()

    def predict(self):
        self.x = self.F.dot(self.x)
        self.P = self.F.dot(self.P).dot(self.F.T) + self.Q

    def update(self, z):
        y = z - self.H.dot(self.x)
        S = self.H.dot(self.P).dot(self.H.T) + self.R
        K = self.P.dot(self.H.T).dot(np.linalg.inv(S))
        self.x += K.dot(y)
        self.P -= K.dot(self.H).dot(self.P)
        logdet = np.linalg.slogdet(S)[1]
        return -0.5 * (y.dot(np.linalg.solve(S, y)) + logdet + len(z) * np.log(2 * np.pi))


def log_likelihood(log_sigmas, zs, dt=0.5):
    q, r = np.exp(log_sigmas)
    F = np.eye(4)
    F[0, 2] = F[1, 3] = dt
    Q = np.zeros((4, 4))
    for i in range(2):
        Q[i, i] = q * dt**3 / 3
        Q[i, i + 2] = Q[i + 2, i] = q * dt**2 / 2
        Q[i + 2, i + 2] = q * dt
    H = np.zeros((2, 4))
    H[0, 0] = H[1, 1] = 1
    kf = KalmanFilter(F, H, Q, r * np.eye(2), np.zeros(4), 10.0 * np.eye(4))
    ll = 0.0
    for z in zs:
        kf.predict()
        ll += kf.update(z)
    return ll
