// The bench of the runner's tests: a writer, a reader and a bus, runners in this process and in their own processes, and the exit
// reports that they send.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { readRunnerConfig } from "../../../services/runner/config.ts";
import type { AgentRecord } from "../../../services/runner/journal.ts";
import { start } from "../../../services/runner/runner.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createLogger, type Logger } from "../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { startService, type TestService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { scratch } from "./launcher-bench.ts";

const WORKER = join(projectRoot, "test/services/runner/worker.program.ts");

export interface AgentSelfReport {
  readonly env: Readonly<Record<string, string>>;
  readonly prompt: string;
  readonly checkpointId: string;
  readonly pid: number;
}

export class RunnerBench {
  readonly writer: InProcessFleet;
  readonly reports: ExitReport[] = [];
  readonly #root = scratch();
  readonly #bus: Bus;
  readonly #stops: Stop[] = [];
  readonly #processes: TestService[] = [];
  #count = 0;

  constructor(writer: InProcessFleet, bus: Bus) {
    this.writer = writer;
    this.#bus = bus;
  }

  /** A new runner with settings of its own: `agents` as in the file, with worker.program.ts as the default command. */
  runner(agents: Record<string, object>, more: object = {}) {
    this.#count += 1;
    const name = `runner-${process.pid}-${this.#count}`;
    const home = join(this.#root, name);
    mkdirSync(home);
    const file = join(home, "settings.json");
    const command = [process.execPath, WORKER];
    const withCommand = Object.entries(agents).map(([type, agent]) => [
      type,
      { command, cwd: home, ...agent },
    ]);
    writeFileSync(file, JSON.stringify({ grace_ms: 500, agents: Object.fromEntries(withCommand), ...more }));
    const env = {
      ...process.env,
      FLEET_URL: this.writer.nats.url,
      FLEET_RUNNER_CONFIG: file,
      FLEET_RUNNER_NAME: name,
      FLEET_HOME: home,
    };
    return new TestRunner(env, home, this.#stops, this.#processes);
  }

  /** Resolves with the exit report of a task's agent. */
  async reported(task: string, count = 1): Promise<ExitReport> {
    const of = () => this.reports.filter(({ task_id }) => task_id === task);
    await expect.poll(() => of().length, { timeout: 30_000, interval: 20 }).toBeGreaterThanOrEqual(count);
    return of()[count - 1] as ExitReport;
  }

  async follow(): Promise<void> {
    const follow = { stream: STREAMS.exits, filter: SUBJECTS.everyExit, from: "all" } as const;
    await this.#bus.follow(follow, ({ body }) => {
      this.reports.push(JSON.parse(Buffer.from(body).toString()) as ExitReport);
    });
  }

  /** The number of messages in the stream of offers. */
  async offers(): Promise<number> {
    return (await this.#bus.stream(STREAMS.offers).state()).messages;
  }

  /** A runner that a failed test leaves running would accept the offers of the next test. */
  async stopRunners(): Promise<void> {
    await Promise.all(this.#processes.splice(0).map((one) => one.kill9()));
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
  }

  async close(): Promise<void> {
    await this.stopRunners();
    await this.#bus.close();
    await this.writer.close();
    rmSync(this.#root, { recursive: true, force: true });
  }
}

class TestRunner {
  readonly #env: NodeJS.ProcessEnv;
  readonly #home: string;
  readonly #stops: Stop[];
  readonly #processes: TestService[];
  /** The metrics of the last runner in this process. */
  metrics = createMetrics();

  constructor(env: NodeJS.ProcessEnv, home: string, stops: Stop[], processes: TestService[]) {
    this.#env = env;
    this.#home = home;
    this.#stops = stops;
    this.#processes = processes;
  }

  /** Starts the runner in this process, with the same folder every time. */
  async start(log: Logger = testLog): Promise<Stop> {
    const config = readRunnerConfig(this.#env);
    const bus = await connectBus({
      url: config.busUrl,
      name: config.runnerName,
      identity: config.runnerName,
      log: testLog,
    });
    this.metrics = createMetrics();
    const stopRunner = await start({
      log,
      metrics: this.metrics,
      clock: systemClock,
      bus,
      config,
      credentialsSource: "none",
    });
    let isStopped = false;
    const stop = async () => {
      if (isStopped) return;
      isStopped = true;
      await stopRunner();
      await bus.close();
    };
    this.#stops.push(stop);
    return stop;
  }

  /** Starts the runner in a process of its own. */
  async spawn(env: Record<string, string> = {}): Promise<TestService> {
    const runner = await startService("runner", { ...this.#env, ...env });
    this.#processes.push(runner);
    return runner;
  }

  /** Writes a record as a killed runner leaves it. */
  writeRecord(record: AgentRecord, prompt: string): void {
    const folder = this.#folder(record.agent_id);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "prompt.md"), prompt);
    writeFileSync(join(folder, "agent.json"), JSON.stringify(record));
  }

  records(): AgentRecord[] {
    const agents = this.#folder("");
    if (!existsSync(agents)) return [];
    return readdirSync(agents).flatMap((name) => {
      const path = join(this.#folder(name), "agent.json");
      return existsSync(path) ? [JSON.parse(readFileSync(path, "utf8")) as AgentRecord] : [];
    });
  }

  /** Resolves with the self-report of a task's agent, written by worker.program.ts. */
  async selfReport(task: string): Promise<AgentSelfReport> {
    const path = () => {
      const record = this.records().find(({ task_id }) => task_id === task);
      return record === undefined ? undefined : join(this.#folder(record.agent_id), "self-report.json");
    };
    await expect.poll(() => existsSync(path() ?? "/nowhere"), { timeout: 30_000, interval: 20 }).toBe(true);
    return JSON.parse(readFileSync(path() as string, "utf8")) as AgentSelfReport;
  }

  /** The number of starts of a task's agent. */
  starts(task: string): number {
    const record = this.records().find(({ task_id }) => task_id === task);
    const path = join(this.#folder(record?.agent_id ?? "nobody"), "starts");
    return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n").length : 0;
  }

  #folder(agent: string): string {
    return join(this.#home, "runner", "agents", agent);
  }
}

/** The record of a qa agent, as a runner writes it before it accepts the offer. */
export const agentRecord = (handoff: string, task: string, more: Partial<AgentRecord>): AgentRecord => ({
  agent_id: `qa-${task}`,
  agent_type: "qa",
  tenant: "default",
  task_id: task,
  handoff_id: handoff,
  checkpoint_id: handoff,
  offer_digest: "0".repeat(64),
  command_id: uuidv7(),
  launcher: "process",
  first_checkpoint_ms: 900_000,
  traceparent: null,
  created_at: new Date().toISOString(),
  state: "accepting",
  fence: null,
  report: null,
  ...more,
});

/** A log whose lines a test reads. */
export function recordedLog() {
  const lines: { readonly level: string; readonly msg: string; readonly task_id?: string }[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  return { log: createLogger({ service: "runner", pretty: false, destination }), lines };
}

export async function openRunnerBench(): Promise<RunnerBench> {
  const writer = await openInProcessFleet();
  const bus = await connectBus({ url: writer.nats.url, name: "bench", identity: "bench", log: testLog });
  const bench = new RunnerBench(writer, bus);
  await bench.follow();
  return bench;
}
