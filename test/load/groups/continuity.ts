// Continuity: agents lose their life at every point of a task, or their context again and again, and others continue. How much of the
// completed work survives, whether any is done twice, and how soon the next agent does new work.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { percentile, summarize } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { ContinuityAgent, ContinuityMessage, DeathPoint } from "../programs/continuity-agent.ts";
import type { Session } from "../session.ts";

const PROGRAM = fileURLToPath(new URL("../programs/continuity-agent.ts", import.meta.url));
const POINTS: readonly DeathPoint[] = ["before the work", "before its report", "after its report"];
const ITEMS = 40;
const CONTEXT_LIMIT = 100_000;
/** A context that no task fills. */
const NO_LIMIT = 10_000_000;
/** Tasks at once: one for each core of the machine that the targets hold for. */
const AT_ONCE = 2;
const CONTEXT_TASKS = 12;

/** One loss: the items done before it, those of them in the checkpoint that continues, and those done again. */
interface Loss {
  readonly done: number;
  readonly found: number;
  /** From the loss to the first work on a new item; null: nothing was left to do. */
  readonly newWorkMs: number | null;
}

interface TaskResult {
  readonly losses: readonly Loss[];
  readonly doneTwice: number;
  readonly lostItems: number;
  readonly promptTokens: readonly number[];
  readonly utilization: readonly number[];
}

export async function measureContinuity(session: Session): Promise<Group> {
  session.log("continuity: starting a fleet");
  const fleet = await session.fleet(session.folder());
  const agents = new Agents(fleet.busUrl, session.folder());
  const step = session.options.quick ? 13 : 1;
  const deaths = POINTS.flatMap((point) =>
    Array.from({ length: ITEMS }, (_, item) => ({ item, point })).filter(({ item }) => item % step === 0),
  );
  session.log(`continuity: ${deaths.length} deaths, one in each task of ${ITEMS} items`);
  const killed = await inTurn(deaths, (death, n) => agents.killed(`killed-${n}`, death));
  const tasks = session.options.quick ? 2 : CONTEXT_TASKS;
  session.log(`continuity: ${tasks} tasks that are larger than a context`);
  const filled = await inTurn(Array.from({ length: tasks }), (_, n) => agents.filled(`filled-${n}`));
  await fleet.stop();
  return group(killed, filled);
}

function group(killed: readonly TaskResult[], filled: readonly TaskResult[]): Group {
  const all = [...killed, ...filled];
  const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0);
  const losses = all.flatMap((task) => task.losses);
  const done = sum(losses.map((loss) => loss.done));
  const again = sum(all.map(({ doneTwice }) => doneTwice));
  const lost = sum(all.map(({ lostItems }) => lostItems));
  const found = sum(losses.map((loss) => loss.found));
  const newWork = (tasks: readonly TaskResult[]) =>
    summarize(tasks.flatMap((task) => task.losses).flatMap(({ newWorkMs }) => newWorkMs ?? []));
  const tokens = all.flatMap((task) => task.promptTokens).sort((a, b) => a - b);
  const used = filled.flatMap((task) => task.utilization).sort((a, b) => a - b);
  return {
    name: "continuity",
    about: `tasks of ${ITEMS} items: ${killed.length} deaths at every point, ${used.length} handoffs for a full context`,
    rows: [
      row("completed work that survives", 100 * (1 - (again + lost) / done), "%", TARGETS.survival),
      row("items done twice or not at all", again + lost, "items", TARGETS.done_twice),
      row("completed items in the checkpoint that continues", (100 * found) / done, "%"),
      row("new process to its first new work after a death, p50", newWork(killed).p50, "ms"),
      row("the same, p99", newWork(killed).p99, "ms"),
      row("handoff to the first new work, p50", newWork(filled).p50, "ms"),
      row("the same, p99", newWork(filled).p99, "ms"),
      row(
        "used part of the context at a handoff, p95",
        100 * percentile(used, 0.95),
        "%",
        TARGETS.utilization,
      ),
      row("prompt of the next agent, largest", tokens.at(-1) ?? null, "tokens"),
    ],
  };
}

/** At most {@link AT_ONCE} at a time, in order. */
async function inTurn<T>(
  all: readonly T[],
  run: (one: T, n: number) => Promise<TaskResult>,
): Promise<TaskResult[]> {
  const results: TaskResult[] = [];
  let next = 0;
  const lane = async () => {
    for (let n = next++; n < all.length; n = next++) results[n] = await run(all[n] as T, n);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return results;
}

class Agents {
  readonly #url: string;
  readonly #root: string;

  constructor(url: string, root: string) {
    this.#url = url;
    this.#root = root;
  }

  /** An agent dies at a point, and a second one continues. */
  async killed(task: string, death: NonNullable<ContinuityAgent["death"]>): Promise<TaskResult> {
    await this.#run({ task, agentId: `${task}-a`, death, contextLimit: NO_LIMIT });
    const done = this.#log(task).length;
    const diedAt = Date.now();
    const messages = await this.#run({ task, agentId: `${task}-b`, death: null, contextLimit: NO_LIMIT });
    const found = messages.flatMap((one) => ("resumed" in one ? one.resumed.found : []))[0] ?? 0;
    const began = messages.flatMap((one) => ("began" in one ? one.began.at : []))[0];
    const newWorkMs = began === undefined ? null : began - diedAt;
    return this.#result(task, messages, [{ done, found, newWorkMs }]);
  }

  /** An agent whose context is too small for the task; each handoff goes to a fresh context. */
  async filled(task: string): Promise<TaskResult> {
    const messages = await this.#run({ task, agentId: task, death: null, contextLimit: CONTEXT_LIMIT });
    const losses: Loss[] = [];
    let done = 0;
    for (const [at, message] of messages.entries()) {
      if ("began" in message) done += 1;
      if (!("handedOff" in message)) continue;
      const after = messages.slice(at + 1);
      const found = after.flatMap((one) => ("resumed" in one ? one.resumed.found : []))[0] ?? 0;
      const began = after.flatMap((one) => ("began" in one ? one.began.at : []))[0];
      const newWorkMs = began === undefined ? null : began - message.handedOff.at;
      losses.push({ done, found, newWorkMs });
    }
    return this.#result(task, messages, losses);
  }

  #result(task: string, messages: readonly ContinuityMessage[], losses: readonly Loss[]): TaskResult {
    const ended = messages.flatMap((one) => ("ended" in one ? one.ended : []))[0];
    if (ended !== "completed") throw new Error(`task ${task} ended as ${ended ?? "nothing"}`);
    const log = this.#log(task);
    const distinct = new Set(log).size;
    return {
      losses,
      doneTwice: log.length - distinct,
      lostItems: ITEMS - distinct,
      promptTokens: messages.flatMap((one) => ("resumed" in one ? (one.resumed.promptTokens ?? []) : [])),
      utilization: messages.flatMap((one) => ("handedOff" in one ? one.handedOff.utilization : [])),
    };
  }

  #log(task: string): string[] {
    try {
      return readFileSync(join(this.#root, task, "log"), "utf8")
        .split("\n")
        .filter(Boolean);
    } catch {
      return [];
    }
  }

  /** Runs one process to its end, which may be its own SIGKILL. */
  async #run(agent: Omit<ContinuityAgent, "url" | "folder" | "items">): Promise<ContinuityMessage[]> {
    const folder = join(this.#root, agent.task);
    mkdirSync(folder, { recursive: true });
    const argument = JSON.stringify({ ...agent, url: this.#url, folder, items: ITEMS });
    const child: ChildProcess = spawn(process.execPath, [PROGRAM, argument], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const messages: ContinuityMessage[] = [];
    createInterface({ input: child.stdout! }).on("line", (line) => messages.push(JSON.parse(line)));
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    const isKilled = agent.death !== null && signal === "SIGKILL";
    if (!isKilled && code !== 0)
      throw new Error(`the agent of task ${agent.task} ended with ${code ?? signal}`);
    return messages;
  }
}
