"""Covering numbers of finite sets and of function classes (Section 2, the lecture notes)."""
