/** All agents of a runner: which offers there is room for, who lives, and what to do with them at the end. */
import { randomBytes } from "node:crypto";
import type { Offer, OfferData } from "../../shared/protocol/offer.ts";
import type { LauncherName } from "../../shared/protocol/runner-settings.ts";
import { type Clock, createWake } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Metrics } from "../../shared/runtime/observability/metrics.ts";
import { newCommandId } from "../../shared/sdk/sdk.ts";
import { type AgentEnd, AgentLifecycle, type LifecycleParts } from "./agent-lifecycle.ts";
import { instructionsFor } from "./instructions.ts";
import type { AgentRecord } from "./journal.ts";
import type { Launcher } from "./launchers/launcher.ts";
import { agentInvocation } from "./profiles.ts";

export interface RunnerAgentsParts
  extends Pick<LifecycleParts, "journal" | "fleet" | "settings" | "specOf" | "host"> {
  readonly launchers: Readonly<Record<LauncherName, Launcher>>;
  readonly tenant: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

const AGENT_TYPE_CHARS = 40;
/** A word that there is room only cuts this short. */
const ROOM_MS = 5_000;
/** For the reports of the last agents, when the runner stops. */
const REPORT_MS = 3_000;

export class Agents {
  readonly #parts: RunnerAgentsParts;
  /** By handoff: an offer that comes again finds the life it began. */
  readonly #lives = new Map<string, AgentLifecycle>();
  readonly #ends = new Map<string, Promise<void>>();
  /** Agents that may have a process, by their handoff. */
  readonly #places = new Map<string, string>();
  readonly #room = createWake();
  #stopping = false;

  constructor(parts: RunnerAgentsParts) {
    this.#parts = parts;
  }

  /** Goes on with everything that an earlier runner of this folder left. */
  recover(): void {
    const { journal, log } = this.#parts;
    const left = journal.all().filter(({ state }) => state !== "reported");
    for (const record of left) this.#begin(record);
    if (left.length > 0) log.info({ agents: left.length }, "agents of an earlier run taken up again");
  }

  /** How many more agents of a type may be started now. */
  room(type: string): number {
    const { settings } = this.#parts;
    const agent = settings.agents[type];
    if (agent === undefined || this.#stopping) return 0;
    const ofType = [...this.#places.values()].filter((one) => one === type).length;
    return Math.max(0, Math.min(agent.max_agents - ofType, settings.max_agents - this.#places.size));
  }

  /** Resolves when there is room for an agent of the type, or the signal aborts. */
  async roomFor(type: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.room(type) === 0)
      await this.#parts.clock.wait(ROOM_MS, this.#room, signal);
  }

  /**
   * Resolves when the offer is dealt with, with what resolves when its agent is over; null: there is no room, another runner shall
   * have it. Throws when it must come again.
   */
  async take(offer: Offer): Promise<{ readonly over: Promise<void> } | null> {
    const { data } = offer;
    let life = this.#lives.get(data.handoff_id);
    if (life === undefined) {
      if (this.room(data.agent_type) === 0) return null;
      const record = this.#recordOf(offer);
      this.#parts.journal.open(record, this.#promptOf(record, data));
      life = this.#begin(record);
    }
    await life.settled;
    return { over: this.#ends.get(data.handoff_id) ?? Promise.resolve() };
  }

  /** By the settings: ends all agents and reports how, or leaves them to the next runner, as what cannot be reported now. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const { settings, clock } = this.#parts;
    const lives = [...this.#lives.values()];
    const ends = Promise.all(this.#ends.values());
    if (settings.on_stop === "stop") {
      await Promise.all(lives.map((life) => life.stop("runner_stopped")));
      const late = new AbortController();
      await Promise.race([ends, clock.sleep(REPORT_MS, late.signal)]);
      late.abort();
    }
    for (const life of lives) life.leave();
    await ends;
  }

  #begin(record: AgentRecord): AgentLifecycle {
    const { launchers, settings, metrics } = this.#parts;
    const { agent_type, handoff_id } = record;
    const agent = settings.agents[agent_type];
    const life = new AgentLifecycle(record, { ...this.#parts, agent, launcher: launchers[record.launcher] });
    this.#lives.set(handoff_id, life);
    this.#places.set(handoff_id, agent_type);
    metrics.runnerAgents.inc({ agent_type });
    const ended = life
      .run((ending) => {
        this.#count(record, ending);
        this.#giveBack(record);
      })
      .catch((error: unknown) => this.#failed(record, error))
      .finally(() => {
        this.#lives.delete(handoff_id);
        this.#ends.delete(handoff_id);
        this.#giveBack(record);
      });
    this.#ends.set(handoff_id, ended);
    return life;
  }

  #giveBack({ handoff_id, agent_type }: AgentRecord): void {
    if (!this.#places.delete(handoff_id)) return;
    this.#parts.metrics.runnerAgents.dec({ agent_type });
    this.#room.notify();
  }

  #count({ agent_type, agent_id, task_id, handoff_id }: AgentRecord, ending: AgentEnd): void {
    const { metrics, log } = this.#parts;
    if (ending.kind === "ended") {
      metrics.runnerExitsTotal.inc({ agent_type, class: ending.report.class });
      return;
    }
    metrics.runnerOffersVoidTotal.inc({ agent_type });
    log.info({ agent_id, agent_type, task_id, handoff_id, why: ending.why }, "offer came to nothing");
  }

  #failed({ agent_id, task_id, handoff_id }: AgentRecord, error: unknown): void {
    if (this.#stopping) return;
    this.#parts.log.error({ agent_id, task_id, handoff_id, error }, "an agent's life broke off");
  }

  #recordOf({ data, traceparent }: Offer): AgentRecord {
    const { clock, settings } = this.#parts;
    return {
      agent_id: `${data.agent_type.slice(0, AGENT_TYPE_CHARS)}-${randomBytes(6).toString("hex")}`,
      agent_type: data.agent_type,
      tenant: this.#parts.tenant,
      task_id: data.task_id,
      handoff_id: data.handoff_id,
      checkpoint_id: data.checkpoint.id,
      command_id: newCommandId(),
      launcher: settings.agents[data.agent_type]?.launcher ?? "process",
      first_checkpoint_ms: data.first_checkpoint_ms,
      traceparent: traceparent ?? null,
      created_at: new Date(clock.now()).toISOString(),
      state: "accepting",
      fence: null,
      report: null,
    };
  }

  /** The fence in it is the one to be: `acknowledge` answers with that, or with an error. */
  #promptOf(record: AgentRecord, { prompt, fence_to_be }: OfferData): string {
    const agent = this.#parts.settings.agents[record.agent_type];
    if (agent === undefined || !agentInvocation(agent).instructions) return prompt;
    return prompt + instructionsFor(record, fence_to_be);
  }
}
