// The system calls of processes, as `strace` records them, in the order in which the kernel carried them out.

/** One system call. `begin` and `end` are positions in the recorded order: between them the call was in progress. */
export interface SystemCall {
  /** The process; its threads share it. */
  readonly pid: number;
  readonly name: string;
  /** As strace prints them: strings in hex, the path of a descriptor behind it. */
  readonly args: readonly string[];
  /** Negative: the call failed, or the process ended before it returned. */
  readonly result: number;
  readonly begin: number;
  readonly end: number;
}

interface OpenCall {
  readonly text: string;
  readonly begin: number;
}

const UNFINISHED = " <unfinished ...>";
const RESUMED = /^<\.\.\. \w+ resumed>(.*)$/s;
const RESULT = /^(.*)\) += (-?\d+|\?|0x[0-9a-f]+)/s;

/** The calls of a log, sorted by their begin. */
export function callsOf(log: string): SystemCall[] {
  const threads: { thread: number; call: Omit<SystemCall, "pid"> }[] = [];
  const open = new Map<number, OpenCall>();
  for (const [at, line] of log.split("\n").entries()) {
    const [, thread = "", text = ""] = /^(\d+) +(.*)$/s.exec(line) ?? [];
    if (text === "" || text.startsWith("+++") || text.startsWith("---")) continue;
    const id = Number(thread);
    if (text.endsWith(UNFINISHED)) {
      open.set(id, { text: text.slice(0, -UNFINISHED.length), begin: at });
      continue;
    }
    const rest = RESUMED.exec(text)?.[1];
    const begun = rest === undefined ? { text: "", begin: at } : open.get(id)!;
    open.delete(id);
    const call = parsed(begun.text + (rest ?? text), begun.begin, at);
    if (call !== undefined) threads.push({ thread: id, call });
  }
  // A call that a kill ended took effect in part, wholly or not at all.
  for (const [thread, { text, begin }] of open) {
    const call = parsed(`${text}) = ?`, begin, Number.POSITIVE_INFINITY);
    if (call !== undefined) threads.push({ thread, call });
  }
  const processOf = processes(threads);
  return threads
    .map(({ thread, call }) => ({ pid: processOf(thread), ...call }))
    .sort((a, b) => a.begin - b.begin);
}

function parsed(text: string, begin: number, end: number): Omit<SystemCall, "pid"> | undefined {
  const [, head = "", result = ""] = RESULT.exec(text) ?? [];
  const start = head.indexOf("(");
  if (start === -1) return undefined;
  const number = result === "?" ? -1 : Number(result);
  return { name: head.slice(0, start), args: argumentsOf(head.slice(start + 1)), result: number, begin, end };
}

/** Splits at the commas outside brackets. Strings are in hex, so they have no brackets. */
function argumentsOf(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let from = 0;
  for (const { 0: sign, index } of text.matchAll(/[,[\]{}]/g)) {
    if (sign === "[" || sign === "{") depth += 1;
    else if (sign !== ",") depth -= 1;
    else if (depth === 0) {
      found.push(text.slice(from, index).trim());
      from = index + 1;
    }
  }
  return [...found, text.slice(from).trim()];
}

/** The process of each thread: a thread has its own number, and shares the descriptors of the one that started it. */
function processes(threads: readonly { thread: number; call: Omit<SystemCall, "pid"> }[]) {
  const starter = new Map<number, number>();
  for (const { thread, call } of threads) {
    const isThread = call.name.startsWith("clone") && call.args.join().includes("CLONE_THREAD");
    if (isThread && call.result > 0) starter.set(call.result, thread);
  }
  return (thread: number): number => {
    let id = thread;
    while (starter.has(id)) id = starter.get(id)!;
    return id;
  };
}

/** The bytes of all strings in an argument: one string, or the parts of a vector. */
export function bytesOf(argument: string): Buffer {
  const parts = [...argument.matchAll(/"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?/g)].map(([, hex = "", more]) => {
    if (more !== undefined) throw new Error("the recorder truncated the bytes of a call");
    return Buffer.from(hex.replaceAll("\\x", ""), "hex");
  });
  return Buffer.concat(parts);
}

/** A descriptor and the path that it led to at the time of the call. */
export function descriptorOf(argument: string): { readonly fd: number; readonly path: string } {
  const [, fd = "-1", path = ""] = /^(-?\w+)(?:<(.*)>)?(?:\(deleted\))?$/s.exec(argument) ?? [];
  return { fd: fd === "AT_FDCWD" ? -100 : Number(fd), path: unescaped(path) };
}

const unescaped = (path: string): string =>
  path.includes("\\x") ? Buffer.from(path.replaceAll("\\x", ""), "hex").toString() : path;
