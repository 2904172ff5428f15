"""What admission policies would say: offline about files (`mooring policy test`), and in other advice about a cluster.

`Judge` asks the policies of a snapshot about an object that somebody might write; the answers are those of the server,
for the functions are the same. Read next: ``judging.py``.
"""

from mooring.advisor.policies.judging import Judge, Verdict, judge_of

__all__ = ["Judge", "Verdict", "judge_of"]
