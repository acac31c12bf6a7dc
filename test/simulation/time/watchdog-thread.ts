/** The thread of the watchdog: it interrupts the main thread, prints where that is and what it reports, and kills the process. */
import { writeSync } from "node:fs";
import type { Debugger } from "node:inspector";
import { Session } from "node:inspector/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { workerData } from "node:worker_threads";
import { REPORT, type WatchedRun } from "./watchdog.ts";

const POLL_MS = 200;
const ANSWER_MS = 30_000;
const STDERR = 2;
const FRAMES_SHOWN = 12;

const usedMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

/** Resolves when one simulation has taken longer than its limit. */
async function untilTooLong({ runs, limitMs }: WatchedRun): Promise<void> {
  let run = 0;
  for (let begin = 0; ; await sleep(POLL_MS)) {
    const current = Atomics.load(runs, 0);
    if (current !== run) {
      run = current;
      begin = usedMs();
    }
    if (run % 2 === 1 && usedMs() - begin > Atomics.load(limitMs, 0)) return;
  }
}

async function describeMainThread(): Promise<string> {
  const session = new Session();
  session.connectToMainThread();
  const files = new Map<string, string>();
  session.on("Debugger.scriptParsed", ({ params }) => files.set(params.scriptId, params.url));
  const paused = new Promise<Debugger.CallFrame[]>((resolve) => {
    session.once("Debugger.paused", ({ params }) => resolve(params.callFrames));
  });
  await session.post("Debugger.enable");
  await session.post("Debugger.pause");
  const frames = await paused;
  const stack = frames
    .slice(0, FRAMES_SHOWN)
    .map(
      ({ functionName, location: { scriptId, lineNumber } }) =>
        `  at ${functionName} (${files.get(scriptId)}:${lineNumber + 1})`,
    );
  const { result } = await session.post("Debugger.evaluateOnCallFrame", {
    callFrameId: frames[0]!.callFrameId,
    expression: `${REPORT}()`,
    returnByValue: true,
  });
  return [result.value ?? result.description, "the main thread", ...stack].join("\n");
}

await untilTooLong(workerData as WatchedRun);
// The main thread does not answer in native code. The timer also keeps this thread alive, which a session does not.
const description = await Promise.race([
  describeMainThread(),
  sleep(ANSWER_MS, "the main thread does not answer"),
]);
writeSync(STDERR, `a simulation took too much time of the processor\n${description}\n`);
process.kill(process.pid, "SIGKILL");
