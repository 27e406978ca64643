"""The native code of the pool, as LLVM IR: waiting, working and running, and for each kind of system, sleeping and
starting threads.

Note [How a run goes], in ndgrad._src.compiler.native.pool, explains it and its correctness.
"""

from __future__ import annotations

import signal

from ndgrad._src.compiler.native import float_status

#: Offsets in the state, in words of 64 bits.
_LINE = 16  # i64 words: two cache lines, since processors fetch them in pairs
_EPOCH, GATE, SLEEPERS, BUSY, JOB, LIMIT, SIGNALS = (_LINE * i for i in range(7))
FUNCTION, ARGUMENT, HOMES = JOB, JOB + 1, JOB + 2
WORKERS, HIRED, SPINS, STOP, STATUS = (LIMIT + i for i in range(1, 6))  # read by all, seldom written
RANGES = SIGNALS + 2 * _LINE  # the mutex and the condition variable of SIGNALS have at most 64 and 48 bytes
_MOST_HOMES = 64  # workers beyond that share them
WORDS = RANGES + _MOST_HOMES * _LINE

_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
#: The number of the system call `futex` on Linux.
FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}

# `wait(state, seen)` returns when the epoch differs from `seen`, or earlier. `wake(state, count)` lets at least `count`
# sleepers check.
_SLEEP_FUTEX = """
declare i64 @syscall(i64, ...)
define internal void @wait(ptr %state, i32 %seen) noinline {{
  %r = call i64 (i64, ...) @syscall(i64 {number}, ptr %state, i32 128, i32 %seen, ptr null, ptr null, i32 0)
  ret void
}}
define internal void @wake(ptr %state, i64 %count) noinline {{
  %n = trunc i64 %count to i32
  %r = call i64 (i64, ...) @syscall(i64 {number}, ptr %state, i32 129, i32 %n, ptr null, ptr null, i32 0)
  ret void
}}
define internal void @prepare(ptr %state) {{
  ret void
}}
"""

_SLEEP_CONDITION = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
define internal void @wait(ptr %state, i32 %seen) noinline {{
  %mutex = getelementptr i64, ptr %state, i64 {signals}
  %condition = getelementptr i64, ptr %state, i64 {condition}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %now = load atomic i32, ptr %state seq_cst, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %sleep, label %done
sleep:
  %b = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %done
done:
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
define internal void @wake(ptr %state, i64 %count) noinline {{
  %mutex = getelementptr i64, ptr %state, i64 {signals}
  %condition = getelementptr i64, ptr %state, i64 {condition}
  %a = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %c = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
define internal void @prepare(ptr %state) {{
  %mutex = getelementptr i64, ptr %state, i64 {signals}
  %condition = getelementptr i64, ptr %state, i64 {condition}
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}}
"""

_SLEEP_WINDOWS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressAll(ptr)
define internal void @wait(ptr %state, i32 %seen) noinline {{
  %old = alloca i32
  store i32 %seen, ptr %old
  %r = call i32 @WaitOnAddress(ptr %state, ptr %old, i64 4, i32 -1)
  ret void
}}
define internal void @wake(ptr %state, i64 %count) noinline {{
  call void @WakeByAddressAll(ptr %state)
  ret void
}}
define internal void @prepare(ptr %state) {{
  ret void
}}
"""

_SLEEPS = {"futex": _SLEEP_FUTEX, "condition": _SLEEP_CONDITION, "windows": _SLEEP_WINDOWS}

_HIRE_POSIX = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
define internal void @hire(ptr %state, i64 %from, i64 %to) noinline {{
entry:
  %thread = alloca ptr
  %all = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %a = call i32 @sigfillset(ptr %all)
  %b = call i32 @pthread_sigmask(i32 {set_mask}, ptr %all, ptr %before)
  br label %head
head:
  %i = phi i64 [%from, %entry], [%j, %hired]
  %more = icmp slt i64 %i, %to
  br i1 %more, label %one, label %done
one:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %state)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %hired, label %done
hired:
  %id = load ptr, ptr %thread
  %c = call i32 @pthread_detach(ptr %id)
  %j = add i64 %i, 1
  br label %head
done:
  %d = call i32 @pthread_sigmask(i32 {set_mask}, ptr %before, ptr null)
  ret void
}}
"""

_HIRE_WINDOWS = """
declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @CloseHandle(ptr)
define internal void @hire(ptr %state, i64 %from, i64 %to) noinline {{
entry:
  br label %head
head:
  %i = phi i64 [%from, %entry], [%j, %hired]
  %more = icmp slt i64 %i, %to
  br i1 %more, label %one, label %done
one:
  %thread = call ptr @CreateThread(ptr null, i64 0, ptr @worker, ptr %state, i32 0, ptr null)
  %bad = icmp eq ptr %thread, null
  br i1 %bad, label %done, label %hired
hired:
  %c = call i32 @CloseHandle(ptr %thread)
  %j = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""

_POOL = """
{declare_pause}
declare i32 @{give_way}()
@state = internal global ptr null

define internal void @relax() alwaysinline {{
  {pause}
  ret void
}}

define void @use(ptr %state) {{
  call void @prepare(ptr %state)
  store atomic ptr %state, ptr @state release, align 8
  ret void
}}

define void @pauses(i64 %count) {{
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%next, %turn]
  call void @relax()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}}

define internal void @chunks_of(ptr %state, i64 %worker, i64 %own) {{
entry:
  %function.at = getelementptr i64, ptr %state, i64 {function}
  %argument.at = getelementptr i64, ptr %state, i64 {argument}
  %homes.at = getelementptr i64, ptr %state, i64 {homes}
  %ranges = getelementptr i64, ptr %state, i64 {ranges}
  %function = load ptr, ptr %function.at
  %argument = load ptr, ptr %argument.at
  %homes = load i64, ptr %homes.at
  br label %home
home:                                      ; the own one first, then those that follow
  %away = phi i64 [0, %entry], [%away.next, %empty]
  %moved = add i64 %own, %away
  %number = urem i64 %moved, %homes
  %line = mul i64 %number, {line}
  %range = getelementptr i64, ptr %ranges, i64 %line
  %is.own = icmp eq i64 %away, 0
  %first = load atomic i64, ptr %range monotonic, align 8
  br label %look
look:
  %word = phi i64 [%first, %home], [%latest, %take], [%after, %work]
  %begin = and i64 %word, {low}
  %end = lshr i64 %word, 32
  %some = icmp ult i64 %begin, %end
  br i1 %some, label %take, label %empty
take:                                      ; from the front at home, elsewhere from the back
  %longer = add i64 %word, 1
  %shorter = sub i64 %word, {one_at_end}
  %less = select i1 %is.own, i64 %longer, i64 %shorter
  %pair = cmpxchg ptr %range, i64 %word, i64 %less monotonic monotonic
  %latest = extractvalue {{ i64, i1 }} %pair, 0
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %work, label %look
work:
  %last = sub i64 %end, 1
  %chunk = select i1 %is.own, i64 %begin, i64 %last
  call void %function(ptr %argument, i64 %chunk, i64 %worker)
  %after = load atomic i64, ptr %range monotonic, align 8
  br label %look
empty:
  %away.next = add i64 %away, 1
  %more = icmp ult i64 %away.next, %homes
  br i1 %more, label %home, label %done
done:
  ret void
}}

define internal void @alone(ptr %function, ptr %argument, i64 %chunks) {{
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%j, %work]
  %more = icmp slt i64 %i, %chunks
  br i1 %more, label %work, label %done
work:
  call void %function(ptr %argument, i64 %i, i64 0)
  %j = add i64 %i, 1
  br label %head
done:
  ret void
}}

define ptr @worker(ptr %state) {{
entry:
  %gate = getelementptr i64, ptr %state, i64 {gate}
  %sleepers = getelementptr i64, ptr %state, i64 {sleepers}
  %stop = getelementptr i64, ptr %state, i64 {stop}
  %workers = getelementptr i64, ptr %state, i64 {workers}
  %spins.at = getelementptr i64, ptr %state, i64 {spins}
  %spins = load i64, ptr %spins.at
  %w = atomicrmw add ptr %workers, i64 1 seq_cst
  %own = add i64 %w, 1                     ; its home for good, as far as a run has so many
  br label %look                           ; a run that is under way may be joined at once
wait:
  %seen = phi i32 [%epoch, %leave], [%seen, %spin.on], [%seen, %sleep]
  %spent = phi i64 [0, %leave], [%spent.next, %spin.on], [0, %sleep]
  %now = load atomic i32, ptr %state acquire, align 4
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %look, label %idle
idle:
  %spent.next = add i64 %spent, 1
  %tired = icmp uge i64 %spent.next, %spins
  br i1 %tired, label %sleep, label %spin
spin:
  call void @relax()
  %low = and i64 %spent.next, 63
  %due = icmp eq i64 %low, 0
  br i1 %due, label %spin.yield, label %spin.on
spin.yield:
  %y = call i32 @{give_way}()
  br label %spin.on
spin.on:
  br label %wait
sleep:
  %s0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  call void @wait(ptr %state, i32 %seen)
  %s1 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %wait
look:
  %epoch = load atomic i32, ptr %state seq_cst, align 4
  %stopping = load atomic i64, ptr %stop seq_cst, align 8
  %over = icmp ne i64 %stopping, 0
  br i1 %over, label %out, label %try
try:                                       ; the gate: open, and a place left?
  %word = load atomic i64, ptr %gate acquire, align 8
  %open = icmp uge i64 %word, {open}
  %places = and i64 %word, {places}
  %place = icmp ne i64 %places, 0
  %may = and i1 %open, %place
  br i1 %may, label %enter, label %leave
enter:
  %fewer = sub i64 %word, {one_place_less}
  %pair = cmpxchg ptr %gate, i64 %word, i64 %fewer acquire monotonic
  %entered = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %entered, label %work, label %try
work:
  %number = lshr i64 %places, 16           ; the last place that is left is worker 1
  call void @clear_status()
  call void @chunks_of(ptr %state, i64 %number, i64 %own)
  %bits = call i64 @status()
  %none = icmp eq i64 %bits, 0
  br i1 %none, label %worked, label %report
report:
  %status = getelementptr i64, ptr %state, i64 {status}
  %b = atomicrmw or ptr %status, i64 %bits monotonic
  br label %worked
worked:
  %g = atomicrmw sub ptr %gate, i64 1 release
  br label %leave
leave:
  br label %wait
out:
  %w1 = atomicrmw sub ptr %workers, i64 1 seq_cst
  ret ptr null
}}

define void @ndgrad_run(ptr %function, ptr %argument, i64 %chunks, i64 %threads) {{
entry:
  %state = load atomic ptr, ptr @state acquire, align 8
  %gate = getelementptr i64, ptr %state, i64 {gate}
  %sleepers = getelementptr i64, ptr %state, i64 {sleepers}
  %busy = getelementptr i64, ptr %state, i64 {busy}
  %function.at = getelementptr i64, ptr %state, i64 {function}
  %argument.at = getelementptr i64, ptr %state, i64 {argument}
  %homes.at = getelementptr i64, ptr %state, i64 {homes}
  %ranges = getelementptr i64, ptr %state, i64 {ranges}
  %limit.at = getelementptr i64, ptr %state, i64 {limit}
  %workers.at = getelementptr i64, ptr %state, i64 {workers}
  %hired.at = getelementptr i64, ptr %state, i64 {hired}
  %limit = load atomic i64, ptr %limit.at monotonic, align 8
  %any = icmp sle i64 %threads, 0
  %asked = select i1 %any, i64 %limit, i64 %threads
  %useful = call i64 @llvm.smin.i64(i64 %asked, i64 %chunks)
  %most = call i64 @llvm.smin.i64(i64 %useful, i64 {most})
  %others = sub i64 %most, 1
  %several = icmp sgt i64 %others, 0
  %counted = icmp ule i64 %chunks, {low}   ; a range is two halves of a word
  %shared = and i1 %several, %counted
  br i1 %shared, label %claim, label %serial
serial:
  tail call void @alone(ptr %function, ptr %argument, i64 %chunks)
  ret void
claim:
  %pair = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %staff, label %serial
staff:
  %hired = load i64, ptr %hired.at
  %enough = icmp sge i64 %hired, %others
  br i1 %enough, label %publish, label %hire, !prof !0
hire:                                      ; this run goes on with those that are there, new ones join when they can
  store i64 %others, ptr %hired.at         ; also if the system refuses: it is not asked again
  call void @hire(ptr %state, i64 %hired, i64 %others)
  br label %publish
publish:
  store ptr %function, ptr %function.at
  store ptr %argument, ptr %argument.at
  %homes = call i64 @llvm.smin.i64(i64 %most, i64 {most_homes})
  store i64 %homes, ptr %homes.at
  br label %range
range:                                     ; chunks * home / homes to chunks * (home + 1) / homes
  %home = phi i64 [0, %publish], [%home.next, %range]
  %begin = phi i64 [0, %publish], [%end, %range]
  %home.next = add i64 %home, 1
  %before = mul i64 %chunks, %home.next
  %end = udiv i64 %before, %homes
  %upper = shl i64 %end, 32
  %range.word = or i64 %upper, %begin
  %line = mul i64 %home, {line}
  %range.at = getelementptr i64, ptr %ranges, i64 %line
  store atomic i64 %range.word, ptr %range.at monotonic, align 8
  %more = icmp ult i64 %home.next, %homes
  br i1 %more, label %range, label %published
published:
  %places = shl i64 %others, 16
  %word = or i64 %places, {open}
  store atomic i64 %word, ptr %gate release, align 8
  %e = atomicrmw add ptr %state, i32 1 seq_cst
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %there = load atomic i64, ptr %workers.at monotonic, align 8
  %awake = sub i64 %there, %asleep
  %short = sub i64 %others, %awake
  %anybody = icmp sgt i64 %asleep, 0
  %needed = icmp sgt i64 %short, 0
  %call = and i1 %anybody, %needed
  br i1 %call, label %rouse, label %work
rouse:
  call void @wake(ptr %state, i64 %short)
  br label %work
work:
  call void @chunks_of(ptr %state, i64 0, i64 0)
  %shut = atomicrmw and ptr %gate, i64 {inside} acq_rel
  %inside = and i64 %shut, {inside}
  %left = icmp eq i64 %inside, 0
  br i1 %left, label %done, label %join
join:
  %turns = phi i64 [0, %work], [%turns.next, %join.on]
  %still = load atomic i64, ptr %gate acquire, align 8
  %all = icmp eq i64 %still, 0
  br i1 %all, label %done, label %join.wait
join.wait:
  %turns.next = add i64 %turns, 1
  %long = icmp ugt i64 %turns.next, 64
  br i1 %long, label %join.yield, label %join.pause
join.pause:
  call void @relax()
  br label %join.on
join.yield:
  %y = call i32 @{give_way}()
  br label %join.on
join.on:
  br label %join
done:                                      ; what workers report becomes the status of this thread
  %status = getelementptr i64, ptr %state, i64 {status}
  %bits = load atomic i64, ptr %status monotonic, align 8
  %none = icmp eq i64 %bits, 0
  br i1 %none, label %free, label %report
report:
  store atomic i64 0, ptr %status monotonic, align 8
  call void @add_status(i64 %bits)
  br label %free
free:
  store atomic i64 0, ptr %busy release, align 8
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)

define void @ndgrad_rouse(i64 %threads) {{
  %state = load atomic ptr, ptr @state acquire, align 8
  %sleepers = getelementptr i64, ptr %state, i64 {sleepers}
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %anybody = icmp sgt i64 %asleep, 0
  br i1 %anybody, label %rouse, label %done
rouse:
  %limit.at = getelementptr i64, ptr %state, i64 {limit}
  %limit = load atomic i64, ptr %limit.at monotonic, align 8
  %any = icmp sle i64 %threads, 0
  %asked = select i1 %any, i64 %limit, i64 %threads
  %others = sub i64 %asked, 1
  %e = atomicrmw add ptr %state, i32 1 seq_cst
  call void @wake(ptr %state, i64 %others)
  br label %done
done:
  ret void
}}

define void @stop(ptr %state) {{
  %stop = getelementptr i64, ptr %state, i64 {stop}
  store atomic i64 1, ptr %stop seq_cst, align 8
  %e = atomicrmw add ptr %state, i32 1 seq_cst
  call void @wake(ptr %state, i64 1000000)
  ret void
}}
!0 = !{{!"branch_weights", i32 1000, i32 1}}
"""


def source(sleep: str, architecture: str) -> str:
    """Return the module of a pool whose workers sleep by a futex, a condition variable, or the functions of Windows."""
    declare_pause, pause = _PAUSE.get(architecture, ("", ""))
    windows = sleep == "windows"
    parts = (_SLEEPS[sleep], _HIRE_WINDOWS if windows else _HIRE_POSIX, _POOL)
    return float_status.functions(architecture) + "".join(parts).format(
        number=FUTEX.get(architecture, 0), set_mask=int(getattr(signal, "SIG_SETMASK", 0)), signals=SIGNALS,
        condition=SIGNALS + 8, declare_pause=declare_pause, pause=pause, give_way="SwitchToThread" if windows else
        "sched_yield", gate=GATE, sleepers=SLEEPERS, busy=BUSY, function=FUNCTION, argument=ARGUMENT, homes=HOMES,
        ranges=RANGES, line=_LINE, most_homes=_MOST_HOMES, low=0xFFFFFFFF, one_at_end=1 << 32, limit=LIMIT,
        workers=WORKERS, hired=HIRED, spins=SPINS, stop=STOP, status=STATUS, open=1 << 32, places=0xFFFF << 16,
        one_place_less=(1 << 16) - 1, inside=0xFFFF, most=0xFFFF,
    )  # fmt: skip
