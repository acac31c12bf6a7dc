/**
 * Program: simulates a few processes that use every source of time and randomness, once for each seed in its arguments, and prints their
 * histories as JSON. With `forbidden` it prints the error of each forbidden call instead.
 */
import { randomBytes, randomInt, randomUUID, subtle } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { hostname } from "node:os";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { uuidv7 } from "uuidv7";
import { SimulatedProcess } from "./processes.ts";
import { simulate } from "./run.ts";

const HOUR_MS = 3_600_000;
const LIMITS = { limitMs: 2 * HOUR_MS, eventsMax: 100_000 };

function startWorker(name: string, history: string[]): SimulatedProcess {
  const process = new SimulatedProcess(name);
  const note = (text: unknown) =>
    history.push(`${performance.now()} ${new Date().toISOString()} ${name} ${text}`);
  process.run(() => {
    const interval = setInterval(() => note("interval"), 40 + Math.random() * 100);
    const work = async (): Promise<void> => {
      for (let n = 0; n < 10; n += 1) {
        await sleep(randomInt(1, 100));
        note(uuidv7());
        await turn();
        note(randomBytes(5).toString("hex"));
        note(crypto.getRandomValues(new Uint8Array(5)).toString());
        await new Promise((resolve) => setImmediate(resolve));
        note(randomUUID());
        note(`${hostname()} ${globalThis.process.pid}`);
        await sleep(5, undefined, { signal: AbortSignal.timeout(3) }).catch((error: Error) =>
          note(error.name),
        );
        await new Promise((resolve) => setTimeout(resolve, 0.5));
        note(process.isAlive);
      }
      clearInterval(interval);
    };
    void work();
  });
  return process;
}

async function historyOf(seed: number): Promise<string[]> {
  const history: string[] = [];
  await simulate(seed, LIMITS, async () => {
    const begin = performance.now();
    const workers = ["a", "b", "c"].map((name) => startWorker(name, history));
    await sleep(Math.random() * 400);
    workers[0]!.kill();
    history.push("killed");
    await sleep(HOUR_MS);
    history.push(`${performance.now() - begin} ms have passed`);
  });
  return history;
}

const FORBIDDEN: Readonly<Record<string, () => unknown>> = {
  worker: () => new Worker("0", { eval: true }),
  socket: () => connect(1),
  write: () => writeFile("/nowhere/file", ""),
  read: () => readFile("/nowhere/file"),
  digest: () => subtle.digest("SHA-256", new Uint8Array(1)),
  import: () => import("../program.ts" as string),
};

async function forbiddenErrors(): Promise<Record<string, string>> {
  const errors: Record<string, string> = {};
  for (const [name, call] of Object.entries(FORBIDDEN)) {
    const run = simulate(1, LIMITS, async () => {
      // The code under test may hide the error; the simulation must end nevertheless.
      try {
        await call();
      } catch {}
      await sleep(1_000);
    });
    errors[name] = await run.then(
      () => "none",
      (error: Error) => error.message,
    );
  }
  return errors;
}

const args = process.argv.slice(2);
const results: Record<string, unknown> = {};
for (const seed of args.filter((one) => one !== "forbidden")) results[seed] = await historyOf(Number(seed));
if (args.includes("forbidden")) results.forbidden = await forbiddenErrors();
process.stdout.write(JSON.stringify(results));
