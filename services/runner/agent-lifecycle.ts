/**
 * The life of one agent, from the offer to the report of its end. Each step is in the journal before the next begins, so a runner that
 * was killed goes on at the same place: it acknowledges under the same id, finds the agent that runs, reports what nobody was told.
 */
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import type { RunnerAgent, RunnerSettings } from "../../shared/protocol/runner-settings.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { retry } from "../../shared/runtime/retry.ts";
import { aborted } from "../../shared/runtime/when-aborted.ts";
import type { Heart } from "../../shared/sdk/heartbeat.ts";
import { classOf, detailsOf, type StopReason, signalOf } from "./exit-class.ts";
import { type FleetPort, isUncertain } from "./fleet-connection.ts";
import type { AgentRecord, Journal } from "./journal.ts";
import {
  type Exit,
  failedToStart,
  type LaunchedAgent,
  type Launcher,
  type LaunchSpec,
} from "./launchers/launcher.ts";

export interface LifecycleParts {
  readonly journal: Journal;
  readonly fleet: FleetPort;
  readonly settings: RunnerSettings;
  /** undefined: the settings name the type no more. */
  readonly agent: RunnerAgent | undefined;
  readonly launcher: Launcher;
  readonly specOf: (record: AgentRecord, agent: RunnerAgent) => LaunchSpec;
  readonly host: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export type AgentEnd =
  | { readonly kind: "void"; readonly why: string }
  | { readonly kind: "ended"; readonly report: ExitReport };

const PATIENT = { attempts: Number.POSITIVE_INFINITY, baseMs: 250, maxMs: 10_000 } as const;
/** Attempts to start an agent before it counts as not started. */
const STARTS = 5;

export class AgentLifecycle {
  readonly #parts: LifecycleParts;
  readonly #log: Logger;
  readonly #leaving = new AbortController();
  readonly #settled = Promise.withResolvers<void>();
  #record: AgentRecord;
  #running: LaunchedAgent | undefined;
  #heart: Heart | undefined;
  #stopped: StopReason | undefined;

  constructor(record: AgentRecord, parts: LifecycleParts) {
    this.#record = record;
    this.#parts = parts;
    const { agent_id, agent_type, task_id, handoff_id } = record;
    this.#log = parts.log.child({ agent_id, agent_type, task_id, handoff_id });
    // Nobody may be waiting for it.
    this.#settled.promise.catch(() => {});
  }

  get record(): AgentRecord {
    return this.#record;
  }

  /** Resolves when the offer needs no more attention: the task is the agent's, or can never be. Rejects when it must come again. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Resolves when the agent is over; rejects when the runner goes away before, and leaves it in the journal as it is. */
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
    if (this.#record.state === "accepted") await this.#live(isNew);
    const { report } = this.#record;
    if (report === null) throw new Error("the record of an agent that has ended says nothing about its end");
    onEnd({ kind: "ended", report });
    await this.#tell(report);
  }

  /** Ends the agent, or keeps it from being started; what became of it is reported as ever. */
  async stop(reason: StopReason): Promise<void> {
    this.#stopped ??= reason;
    this.#heart?.set({ state: "stopping" });
    await this.#running?.stop(this.#parts.settings.grace_ms);
  }

  /** The runner goes away; the agent stays as it is. */
  leave(): void {
    this.#leaving.abort(new Error("the runner is stopping"));
  }

  #save(change: Partial<AgentRecord>): void {
    this.#record = { ...this.#record, ...change };
    this.#parts.journal.save(this.#record);
  }

  /** null: the task is the agent's; else why not. */
  async #accept(): Promise<string | null> {
    if (this.#record.state !== "accepting") return null;
    const { journal, fleet, clock } = this.#parts;
    const { signal } = this.#leaving;
    try {
      const answer = await retry({ ...PATIENT, clock, signal, retryable: isUncertain }, () =>
        fleet.acknowledge(this.#record),
      );
      if ("fence" in answer) {
        this.#save({ state: "accepted", fence: answer.fence });
        return null;
      }
      journal.drop(this.#record.agent_id);
      return answer.void;
    } catch (error) {
      // Refused for good: it did not happen, and another runner may have more success.
      if (!isUncertain(error) && !signal.aborted) journal.drop(this.#record.agent_id);
      throw error;
    }
  }

  async #live(isNew: boolean): Promise<void> {
    const exit = await this.#exit(isNew);
    const report = this.#reportOf(exit);
    this.#save({ state: "ended", report });
    const facts = { class: report.class, exit_code: report.exit_code, signal: report.signal };
    if (report.class === "completed") this.#log.info(facts, "agent ended");
    else if (report.class === "not_started")
      this.#log.error({ ...facts, details: report.details }, "agent could not be started");
    else this.#log.warn({ ...facts, details: report.details }, "agent failed");
  }

  async #exit(isNew: boolean): Promise<Exit> {
    const { agent, launcher, specOf, journal } = this.#parts;
    const { folder } = journal.paths(this.#record.agent_id);
    const isKnown = launcher.knows(folder);
    if (!isKnown && this.#stopped !== undefined) return this.#unstarted("the runner was stopped first");
    if (agent === undefined && !isKnown)
      return this.#unstarted("the runner's settings name its type no more");
    if (!isNew && !isKnown && !(await this.#owned()))
      return this.#unstarted("while the runner was away the task went to somebody else");
    const spec = specOf(this.#record, agent ?? UNKNOWN_AGENT);
    try {
      return await this.#ran(await this.#launched(spec), isKnown);
    } catch (error) {
      if (this.#leaving.signal.aborted) throw error;
      this.#log.error({ error }, "the launcher failed");
      return this.#unstarted(error instanceof Error ? error.message : String(error));
    }
  }

  #launched(spec: LaunchSpec): Promise<LaunchedAgent> {
    const { launcher, clock } = this.#parts;
    const { signal } = this.#leaving;
    return retry({ ...PATIENT, attempts: STARTS, clock, signal }, () => launcher.start(spec));
  }

  async #ran(running: LaunchedAgent, found: boolean): Promise<Exit> {
    const { agent, settings } = this.#parts;
    this.#running = running;
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#leaving.signal]);
    this.#log.info({ agent_pid: running.pid }, found ? "agent found again" : "agent started");
    if (this.#stopped !== undefined) void running.stop(settings.grace_ms);
    if (agent?.heartbeats !== false) this.#heart = this.#startHeart(running);
    const ending = agent?.run_ms === undefined ? undefined : this.#endInTime(agent.run_ms, signal);
    try {
      return await Promise.race([running.exited, this.#left()]);
    } finally {
      over.abort();
      await ending;
      await this.#heart?.stop();
    }
  }

  /** Rejects when the runner leaves its agents to the next one. */
  async #left(): Promise<never> {
    await aborted(this.#leaving.signal);
    throw this.#leaving.signal.reason;
  }

  #startHeart({ pid }: LaunchedAgent): Heart {
    const { fleet } = this.#parts;
    const { agent_type, task_id, fence } = this.#record;
    const state = this.#stopped === undefined ? "working" : "stopping";
    const pulse = { agentType: agent_type, taskId: task_id, fence: fence ?? 0, pid, state } as const;
    return fleet.startHeartbeat(this.#record, pulse);
  }

  /** Counted from when the task was given, so that a runner that starts anew does not grant it anew. */
  async #endInTime(runMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts;
    const left = Date.parse(this.#record.created_at) + runMs - clock.now();
    await clock.sleep(Math.max(0, left), signal);
    if (!signal.aborted) await this.stop("run_time");
  }

  async #owned(): Promise<boolean> {
    const { fleet, clock } = this.#parts;
    const { signal } = this.#leaving;
    return retry({ ...PATIENT, clock, signal }, () => fleet.owns(this.#record));
  }

  #unstarted(problem: string): Exit {
    return failedToStart(problem, new Date(this.#parts.clock.now()).toISOString());
  }

  #reportOf(exit: Exit): ExitReport {
    const { journal, agent, host } = this.#parts;
    const { agent_id, agent_type, task_id, fence, handoff_id } = this.#record;
    const word = journal.word(agent_id);
    const circumstances = { word, stopped: this.#stopped, codes: agent?.exit_codes ?? {} };
    const details = detailsOf(exit, circumstances);
    return {
      agent_id,
      agent_type,
      task_id,
      fence: fence ?? 0,
      handoff_id,
      class: classOf(exit, circumstances),
      exit_code: exit.code,
      signal: signalOf(exit),
      started_at: exit.startedAt,
      ended_at: exit.endedAt,
      host,
      ...(details !== undefined && { details }),
      ...(word?.resets_at !== undefined && { resets_at: word.resets_at }),
    };
  }

  async #tell(report: ExitReport): Promise<void> {
    const { fleet, clock, journal, settings } = this.#parts;
    await retry({ ...PATIENT, clock, signal: this.#leaving.signal }, () =>
      fleet.report(this.#record, report),
    );
    this.#save({ state: "reported" });
    journal.prune(settings.kept_folders);
  }
}

/** To find an agent again nothing of its type's settings is needed. */
const UNKNOWN_AGENT: RunnerAgent = {
  profile: "command",
  launcher: "process",
  args: [],
  env: {},
  max_agents: 1,
  heartbeats: true,
  exit_codes: {},
};
