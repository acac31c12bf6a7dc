/** All agents of a runner: the capacity for offers, the running agents, and their end when the runner stops. */
import { randomBytes } from "node:crypto";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Offer, OfferData } from "../../shared/protocol/offer.ts";
import type { LauncherName } from "../../shared/protocol/runner-settings.ts";
import { type Clock, createWake } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Metrics } from "../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { newCommandId } from "../../shared/sdk/sdk.ts";
import { type AgentEnd, AgentLifecycle, type LifecycleParts } from "./agent/agent-lifecycle.ts";
import { instructionsFor } from "./instructions.ts";
import type { AgentRecord } from "./journal.ts";
import type { Launcher } from "./launchers/launcher.ts";
import { agentInvocation } from "./profiles.ts";

export interface RunnerAgentsParts
  extends Pick<LifecycleParts, "journal" | "fleet" | "settings" | "specOf" | "credentials" | "host"> {
  readonly launchers: Readonly<Record<LauncherName, Launcher>>;
  /** Serves the requests about one agent. Never rejects. */
  readonly serveRequests: (record: AgentRecord, lifecycle: AgentLifecycle) => Promise<Stop>;
  readonly tenant: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

const AGENT_TYPE_CHARS = 40;
/** The interval at which the capacity is checked; the end of an agent wakes the waiting offers earlier. */
const CAPACITY_CHECK_MS = 5_000;
/** Time for the exit reports of the last agents when the runner stops. */
const REPORT_MS = 3_000;

export class Agents {
  readonly #parts: RunnerAgentsParts;
  /** By handoff id, so that a redelivered offer finds the lifecycle that it began. */
  readonly #lifecycles = new Map<string, AgentLifecycle>();
  readonly #ends = new Map<string, Promise<void>>();
  /** The agent types of all agents that may have a process, by handoff id. */
  readonly #occupied = new Map<string, string>();
  readonly #capacityFreed = createWake();
  #stopping = false;

  constructor(parts: RunnerAgentsParts) {
    this.#parts = parts;
  }

  /** Resumes the agents that an earlier runner of this folder left. */
  resume(): void {
    const { journal, log } = this.#parts;
    const left = journal.all().filter(({ state }) => state !== "reported");
    for (const record of left) this.#start(record);
    if (left.length > 0) log.info({ agents: left.length }, "agents of an earlier runner resumed");
  }

  /** The number of agents of a type that may be started now. */
  capacity(type: string): number {
    const { settings } = this.#parts;
    const agent = settings.agents[type];
    if (agent === undefined || this.#stopping) return 0;
    const ofType = [...this.#occupied.values()].filter((one) => one === type).length;
    return Math.max(0, Math.min(agent.max_agents - ofType, settings.max_agents - this.#occupied.size));
  }

  /** Resolves when one more agent of the type may be started, or the signal aborts. */
  async capacityFor(type: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.capacity(type) === 0)
      await this.#parts.clock.wait(CAPACITY_CHECK_MS, this.#capacityFreed, signal);
  }

  /**
   * Resolves when the offer is decided, with the end of its agent as `ended`. null: the runner has no capacity, and another runner may take
   * the offer. Throws when the offer must be redelivered.
   */
  async accept(offer: Offer): Promise<{ readonly ended: Promise<void> } | null> {
    const { data } = offer;
    let lifecycle = this.#lifecycles.get(data.handoff_id);
    if (lifecycle === undefined) {
      if (this.capacity(data.agent_type) === 0) return null;
      const record = this.#recordOf(offer);
      this.#parts.journal.open(record, this.#promptOf(record, data));
      lifecycle = this.#start(record);
    }
    if (lifecycle.record.offer_digest !== data.digest) return otherOffer(lifecycle);
    await lifecycle.settled;
    return { ended: this.#ends.get(data.handoff_id) ?? Promise.resolve() };
  }

  /** The agent that runs under this id. Throws NOT_FOUND if there is none. */
  running(agentId: string): AgentLifecycle {
    const found = [...this.#lifecycles.values()].find(({ record }) => record.agent_id === agentId);
    if (found === undefined)
      throw new FleetError("NOT_FOUND", "the runner has no such agent", { details: { agent_id: agentId } });
    return found;
  }

  /** As the settings say: ends and reports all agents, or leaves them to the next runner. Reports that cannot be sent now are left too. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const { settings, clock } = this.#parts;
    const lifecycles = [...this.#lifecycles.values()];
    const ends = Promise.all(this.#ends.values());
    if (settings.on_stop === "stop") {
      await Promise.all(lifecycles.map((lifecycle) => lifecycle.stop("runner_stopped")));
      const late = new AbortController();
      await Promise.race([ends, clock.sleep(REPORT_MS, late.signal)]);
      late.abort();
    }
    for (const lifecycle of lifecycles) lifecycle.detach();
    await ends;
  }

  #start(record: AgentRecord): AgentLifecycle {
    const { launchers, settings, metrics } = this.#parts;
    const { agent_type, handoff_id } = record;
    const agent = settings.agents[agent_type];
    const lifecycle = new AgentLifecycle(record, {
      ...this.#parts,
      agent,
      launcher: launchers[record.launcher],
    });
    this.#lifecycles.set(handoff_id, lifecycle);
    this.#occupied.set(handoff_id, agent_type);
    metrics.runnerAgents.inc({ agent_type });
    const stopRequests = this.#parts.serveRequests(record, lifecycle);
    const ended = lifecycle
      .run((ending) => {
        this.#count(record, ending);
        this.#freeCapacity(record);
      })
      .catch((error: unknown) => this.#failed(record, error))
      .finally(() => {
        this.#lifecycles.delete(handoff_id);
        this.#ends.delete(handoff_id);
        this.#freeCapacity(record);
        void stopRequests.then((stop) => stop());
      });
    this.#ends.set(handoff_id, ended);
    return lifecycle;
  }

  #freeCapacity({ handoff_id, agent_type }: AgentRecord): void {
    if (!this.#occupied.delete(handoff_id)) return;
    this.#parts.metrics.runnerAgents.dec({ agent_type });
    this.#capacityFreed.notify();
  }

  #count({ agent_type, agent_id, task_id, handoff_id }: AgentRecord, ending: AgentEnd): void {
    const { metrics, log } = this.#parts;
    if (ending.kind === "ended") {
      metrics.runnerExitsTotal.inc({ agent_type, class: ending.report.class });
      return;
    }
    metrics.runnerOffersVoidTotal.inc({ agent_type });
    log.info({ agent_id, agent_type, task_id, handoff_id, why: ending.why }, "offer is void");
  }

  #failed({ agent_id, task_id, handoff_id }: AgentRecord, error: unknown): void {
    if (this.#stopping) return;
    this.#parts.log.error({ agent_id, task_id, handoff_id, error }, "the lifecycle of an agent failed");
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
      offer_digest: data.digest,
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

  /** The prompt names the fence to be: `acknowledge` answers with that fence or with an error. */
  #promptOf(record: AgentRecord, { prompt, fence_to_be }: OfferData): string {
    const agent = this.#parts.settings.agents[record.agent_type];
    if (agent === undefined || !agentInvocation(agent).instructions) return prompt;
    return prompt + instructionsFor(record, fence_to_be);
  }
}

/** Another offer of the same handoff is being accepted, and one of the two may be forged. If that one is void, this one is tried later. */
async function otherOffer(lifecycle: AgentLifecycle): Promise<{ readonly ended: Promise<void> } | null> {
  await lifecycle.settled.catch(() => {});
  return lifecycle.record.state === "accepting" ? null : { ended: Promise.resolve() };
}
