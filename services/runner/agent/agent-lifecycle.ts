/**
 * The lifecycle of one agent, from the offer to its exit report. Each step is in the journal before the next begins, so a runner that
 * was killed resumes at the same step: it accepts under the same command id, finds the running agent, and sends the report that is missing.
 */
import { checkpointMessage } from "../../../shared/prompts/checkpoint-message.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { RunnerAgent, RunnerSettings } from "../../../shared/protocol/runner-settings.ts";
import { type Clock, whenAborted } from "../../../shared/runtime/clock.ts";
import { createDeferred } from "../../../shared/runtime/deferred.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { withRetries } from "../../../shared/runtime/retry.ts";
import type { HeartbeatSender } from "../../../shared/sdk/heartbeat.ts";
import { newCommandId } from "../../../shared/sdk/sdk.ts";
import { type FleetPort, isUncertain } from "../fleet-connection.ts";
import type { AgentRecord, Journal } from "../journal.ts";
import {
  type AgentTerminal,
  type Exit,
  failedToStart,
  type LaunchedAgent,
  type Launcher,
  type LaunchSpec,
} from "../launchers/launcher.ts";
import type { AgentCredentials } from "./agent-credentials.ts";
import { classOf, detailsOf, type StopReason, signalOf } from "./exit-class.ts";

export interface LifecycleParts {
  readonly journal: Journal;
  readonly fleet: FleetPort;
  readonly settings: RunnerSettings;
  /** The settings of the agent type; undefined: the runner's file no longer has the type. */
  readonly agent: RunnerAgent | undefined;
  readonly launcher: Launcher;
  readonly specOf: (record: AgentRecord, agent: RunnerAgent, hasCredentials: boolean) => LaunchSpec;
  readonly credentials: AgentCredentials;
  readonly host: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export type AgentEnd =
  | { readonly kind: "void"; readonly why: string }
  | { readonly kind: "ended"; readonly report: ExitReport };

const RETRY_FOREVER = { attempts: Number.POSITIVE_INFINITY, baseMs: 250, maxMs: 10_000 } as const;
/** Failures to start an agent before it counts as not started. */
const START_ATTEMPTS = 5;

export class AgentLifecycle {
  readonly #parts: LifecycleParts;
  readonly #log: Logger;
  readonly #detaching = new AbortController();
  readonly #settled = createDeferred<void>();
  #record: AgentRecord;
  #running: LaunchedAgent | undefined;
  #heartbeat: HeartbeatSender | undefined;
  #stopReason: StopReason | undefined;

  constructor(record: AgentRecord, parts: LifecycleParts) {
    this.#record = record;
    this.#parts = parts;
    const { agent_id, agent_type, task_id, handoff_id } = record;
    this.#log = parts.log.child({ agent_id, agent_type, task_id, handoff_id });
    // After a restart no caller waits for it.
    this.#settled.promise.catch(() => {});
  }

  get record(): AgentRecord {
    return this.#record;
  }

  /** Resolves when the offer is decided: the agent owns the task, or the offer is void. Rejects when the offer must be redelivered. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Resolves when the end of the agent is reported. Rejects when the runner stops earlier; the journal then keeps the record as it is. */
  async run(onEnd: (ending: AgentEnd) => void): Promise<void> {
    const isNew = this.#record.state === "accepting";
    try {
      const why = await this.#accept();
      this.#settled.resolve();
      if (why !== null) return onEnd({ kind: "void", why });
    } catch (error) {
      this.#settled.reject(error);
      throw error;
    }
    if (this.#record.state === "accepted") await this.#runToExit(isNew);
    const { report } = this.#record;
    if (report === null) throw new Error("the record of an ended agent has no exit report");
    onEnd({ kind: "ended", report });
    await this.#sendReport(report);
  }

  /** Ends the agent, or prevents its start. Its end is reported as usual. */
  async stop(reason: StopReason): Promise<void> {
    this.#stopReason ??= reason;
    this.#heartbeat?.set({ state: "stopping" });
    await this.#running?.stop(this.#parts.settings.grace_ms);
  }

  /** Writes the checkpoint message to the agent's window. */
  async askForCheckpoint(): Promise<void> {
    const terminal = this.#terminal();
    if (!(await terminal.deliver(this.#checkpointMessage())))
      throw new FleetError("UNAVAILABLE", "the agent did not take the message", {
        details: { agent_id: this.#record.agent_id },
      });
    this.#log.info("agent asked for a checkpoint");
  }

  /** Stops the agent and starts it as one that continues its session; then it is asked for a checkpoint (seed 001, invariant 6). */
  async restart(): Promise<void> {
    const terminal = this.#terminal();
    const { settings, clock } = this.#parts;
    // Recorded first: a runner that is killed here leaves the message to the next one.
    this.#save({ message_due_at: new Date(clock.now() + LIMITS.restart_injection_ms).toISOString() });
    await terminal.restart(settings.grace_ms);
    this.#log.info("agent restarted");
    this.#save({ message_due_at: new Date(clock.now() + LIMITS.restart_injection_ms).toISOString() });
    void this.#sendDueMessage();
  }

  #terminal(): AgentTerminal {
    const { agent_id, launcher } = this.#record;
    const terminal = this.#running?.terminal;
    if (terminal !== undefined) return terminal;
    throw new FleetError("INVALID", "nothing can be written to this agent", {
      fields: [
        {
          path: "agent_id",
          expected: "an agent that runs in a tmux window",
          got: `${agent_id}: ${launcher}`,
        },
      ],
    });
  }

  #checkpointMessage(): string {
    const { agent_id, task_id, agent_type, fence } = this.#record;
    const path = this.#parts.journal.paths(agent_id).checkpointMessage;
    const document = this.#parts.settings.checkpoint_message;
    writeWhole(
      path,
      checkpointMessage({ taskId: task_id, agentType: agent_type, fence: fence ?? undefined, document }),
    );
    return path;
  }

  /** Never rejects. */
  async #sendDueMessage(): Promise<void> {
    const { clock } = this.#parts;
    const { signal } = this.#detaching;
    const due = this.#record.message_due_at;
    if (due == null) return;
    await clock.sleep(Math.max(0, Date.parse(due) - clock.now()), signal);
    if (signal.aborted || this.#record.message_due_at !== due) return;
    try {
      await this.askForCheckpoint();
    } catch (error) {
      this.#log.warn({ error }, "the agent was not asked for a checkpoint after its restart");
    }
    if (!signal.aborted && this.#record.message_due_at === due) this.#save({ message_due_at: null });
  }

  /** The runner stops without the agent, which keeps running. */
  detach(): void {
    this.#detaching.abort(new Error("the runner is stopping"));
  }

  #save(change: Partial<AgentRecord>): void {
    this.#record = { ...this.#record, ...change };
    this.#parts.journal.save(this.#record);
  }

  /** null: the agent owns the task; otherwise the reason why the offer is void. */
  async #accept(): Promise<string | null> {
    if (this.#record.state !== "accepting") return null;
    const { journal, fleet, clock } = this.#parts;
    const { signal } = this.#detaching;
    try {
      const answer = await withRetries({ ...RETRY_FOREVER, clock, signal, retryable: isUncertain }, () =>
        fleet.acknowledge(this.#record),
      );
      if ("fence" in answer) {
        this.#save({ state: "accepted", fence: answer.fence });
        return null;
      }
      journal.drop(this.#record.agent_id);
      return answer.void;
    } catch (error) {
      // A final refusal had no effect; the offer is redelivered, perhaps to another runner.
      if (!isUncertain(error) && !signal.aborted) journal.drop(this.#record.agent_id);
      throw error;
    }
  }

  async #runToExit(isNew: boolean): Promise<void> {
    const exit = await this.#obtainExit(isNew);
    const report = this.#reportOf(exit);
    this.#save({ state: "ended", report });
    const facts = { class: report.class, exit_code: report.exit_code, signal: report.signal };
    if (report.class === "completed") this.#log.info(facts, "agent ended");
    else if (report.class === "not_started")
      this.#log.error({ ...facts, details: report.details }, "agent could not be started");
    else this.#log.warn({ ...facts, details: report.details }, "agent failed");
  }

  async #obtainExit(isNew: boolean): Promise<Exit> {
    const { agent, launcher, specOf, journal } = this.#parts;
    const { folder } = journal.paths(this.#record.agent_id);
    const wasStarted = launcher.knows(folder);
    if (!wasStarted && this.#stopReason !== undefined)
      return this.#notStarted("the runner was stopped before the start");
    if (agent === undefined && !wasStarted)
      return this.#notStarted("the runner's settings no longer have its agent type");
    if (!isNew && !wasStarted && !(await this.#isOwner()))
      return this.#notStarted("another agent took the task while the runner was down");
    const specWith = (hasCredentials: boolean) =>
      specOf(this.#record, agent ?? UNKNOWN_AGENT, hasCredentials);
    try {
      return await this.#withCredentials(async (hasCredentials) =>
        this.#watch(await this.#launch(specWith(hasCredentials)), wasStarted),
      );
    } catch (error) {
      if (this.#detaching.signal.aborted) throw error;
      this.#log.error({ error }, "the launcher failed");
      return this.#notStarted(error instanceof Error ? error.message : String(error));
    }
  }

  async #withCredentials<T>(run: (hasCredentials: boolean) => Promise<T>): Promise<T> {
    const { credentials, journal } = this.#parts;
    const path = journal.paths(this.#record.agent_id).credentials;
    const stopRenewal = await credentials.keep(this.#record, path);
    try {
      return await run(stopRenewal !== null);
    } finally {
      await stopRenewal?.();
      // An agent that this runner leaves to the next one needs its file.
      if (!this.#detaching.signal.aborted) credentials.remove(path);
    }
  }

  #launch(spec: LaunchSpec): Promise<LaunchedAgent> {
    const { launcher, clock } = this.#parts;
    const { signal } = this.#detaching;
    return withRetries({ ...RETRY_FOREVER, attempts: START_ATTEMPTS, clock, signal }, () =>
      launcher.start(spec),
    );
  }

  async #watch(running: LaunchedAgent, wasFound: boolean): Promise<Exit> {
    const { agent, settings } = this.#parts;
    this.#running = running;
    const done = new AbortController();
    const signal = AbortSignal.any([done.signal, this.#detaching.signal]);
    this.#logStart(running, wasFound);
    void this.#sendDueMessage();
    if (this.#stopReason !== undefined) void running.stop(settings.grace_ms);
    if (running.isStarted && agent?.heartbeats !== false) this.#heartbeat = this.#startHeartbeat(running);
    const limit = agent?.run_ms === undefined ? undefined : this.#stopAfter(agent.run_ms, signal);
    try {
      return await Promise.race([running.exited, this.#detached()]);
    } finally {
      done.abort();
      await limit;
      await this.#heartbeat?.stop();
    }
  }

  /** An agent without a process is logged once, as one that could not be started. */
  #logStart({ pid, isStarted }: LaunchedAgent, wasFound: boolean): void {
    if (!isStarted) return;
    if (wasFound) this.#log.info({ agent_pid: pid }, "running agent found");
    else if (pid === null) this.#log.info("job of the agent created");
    else this.#log.info({ agent_pid: pid }, "agent started");
  }

  /** Rejects when the runner stops and leaves its agents to the next runner. */
  async #detached(): Promise<never> {
    await whenAborted(this.#detaching.signal);
    throw this.#detaching.signal.reason;
  }

  #startHeartbeat({ pid }: LaunchedAgent): HeartbeatSender {
    const { fleet } = this.#parts;
    const { agent_type, task_id, fence } = this.#record;
    const state = this.#stopReason === undefined ? "working" : "stopping";
    const beat = { agentType: agent_type, taskId: task_id, fence: fence ?? 0, pid, state } as const;
    return fleet.startHeartbeat(this.#record, beat);
  }

  /** The time counts from the record of the offer, so that a restart of the runner does not extend it. */
  async #stopAfter(runMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const left = Date.parse(this.#record.created_at) + runMs - clock.now();
    await clock.sleep(Math.max(0, left), signal);
    if (!signal.aborted) await this.stop("run_time");
  }

  async #isOwner(): Promise<boolean> {
    const { fleet, clock } = this.#parts;
    const { signal } = this.#detaching;
    return withRetries({ ...RETRY_FOREVER, clock, signal }, () => fleet.owns(this.#record));
  }

  #notStarted(problem: string): Exit {
    return failedToStart(problem, new Date(this.#parts.clock.now()).toISOString());
  }

  #reportOf(exit: Exit): ExitReport {
    const { journal, agent, host } = this.#parts;
    const { agent_id, agent_type, task_id, fence, handoff_id } = this.#record;
    const note = journal.exitNote(agent_id);
    const context = { note, stopped: this.#stopReason, codes: agent?.exit_codes ?? {} };
    const details = detailsOf(exit, context);
    return {
      report_id: newCommandId(),
      agent_id,
      agent_type,
      task_id,
      fence: fence ?? 0,
      handoff_id,
      class: classOf(exit, context),
      exit_code: exit.code,
      signal: signalOf(exit),
      started_at: exit.startedAt,
      ended_at: exit.endedAt,
      host,
      ...(details !== undefined && { details }),
      ...(note?.resets_at !== undefined && { resets_at: note.resets_at }),
    };
  }

  async #sendReport(report: ExitReport): Promise<void> {
    const { fleet, clock, journal, settings } = this.#parts;
    await withRetries({ ...RETRY_FOREVER, clock, signal: this.#detaching.signal }, () =>
      fleet.report(this.#record, report),
    );
    this.#save({ state: "reported" });
    await journal.seal(this.#record.agent_id);
    journal.prune(settings.kept_folders);
  }
}

/** Stands in for the settings of a type that the file no longer has; a running agent is found without them. */
const UNKNOWN_AGENT: RunnerAgent = {
  profile: "command",
  launcher: "process",
  args: [],
  env: {},
  max_agents: 1,
  heartbeats: true,
  exit_codes: {},
};
