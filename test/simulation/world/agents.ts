/** The programs of agents in a simulated fleet, on the code of the fault run: agents that write, takers of offers, and workers. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../shared/bus/bus.ts";
import type { CheckpointInput } from "../../../shared/protocol/checkpoint.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { classOfError } from "../../../shared/sdk/agent/failure.ts";
import { connectClient, type SpoolSettings } from "../../../shared/sdk/client/connect.ts";
import { type FleetClient, runAgent } from "../../../shared/sdk/sdk.ts";
import { SpoolSeal } from "../../../shared/sdk/spool/seal.ts";
import { spoolName } from "../../../shared/sdk/spool/spool-list.ts";
import { type AgentContext, takeStep } from "../../fleet/faults/agents/agent.ts";
import { BusRecorder } from "../../fleet/faults/agents/bus-recorder.ts";
import { Copies } from "../../fleet/faults/agents/copies.ts";
import { type TakerContext, takeOffer } from "../../fleet/faults/agents/taker.ts";
import { AgentBehaviour } from "../../fleet/faults/agents/workload.ts";
import { killableBus } from "../../fleet/faults/environment/kill-points.ts";
import { withCalls } from "../../fleet/faults/workers/calls.ts";
import { HEARTBEAT_MS, WORKER } from "../../fleet/faults/workers/task-kinds.ts";
import { WorkFailure, work } from "../../fleet/faults/workers/worker.ts";
import { SIMULATED_FOLDER } from "../machine/file-system.ts";
import { SILENT_LOG } from "../silent-log.ts";
import { currentProcess, outside } from "../time/processes.ts";
import { connectHost, killsOf, SIMULATED_POLICIES, type WorldHost } from "./host.ts";

const RETRY_MS = 300;
const FLUSH_MS = 15_000;

/** Short checkpoints, because their size costs most of the time of a simulation. */
const TEXTS = {
  checkpoint: (agent: number, step: number): CheckpointInput => ({
    metadata: { agent_type: "implementation", session_id: `session-${agent}` },
    execution_state: {
      phase: "implementing",
      completed_items: [{ title: `item ${step}` }],
      pending_items: [{ title: `item ${step + 1}` }],
      current_focus: `step ${step}`,
    },
  }),
};

/** The agents of one process share a record, as in the fault run. */
export class SimulatedAgents {
  readonly #host: WorldHost;
  readonly #name: string;
  readonly #hasSpools: boolean;
  readonly #copies: Copies;
  readonly recorder: BusRecorder;
  readonly #stopping = new AbortController();
  readonly #clients: FleetClient[] = [];
  #calls = 0;

  /** `name` is that of the incarnation. `hasSpools`: it runs on the machine of the agents, and has its files there. */
  constructor(host: WorldHost, name: string, { hasSpools = true } = {}) {
    this.#host = host;
    this.#name = name;
    this.#hasSpools = hasSpools;
    this.#copies = new Copies({ history: host.history, random: Math.random, nextCall: this.nextCall });
    this.recorder = new BusRecorder(host.history, this.#copies);
  }

  get history(): WorldHost["history"] {
    return this.#host.history;
  }

  readonly log = SILENT_LOG;

  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  readonly nextCall = (): string => {
    this.#calls += 1;
    return `${this.#name}/${this.#calls}`;
  };

  async connect(agentId: string, wrapped = (bus: Bus): Bus => bus): Promise<AgentContext> {
    const open = async (): Promise<Bus> => {
      const bus = await connectHost(this.#host, { identity: agentId, tenant: DEFAULT_TENANT });
      return wrapped(this.recorder.recorded(bus));
    };
    const client = await connectClient(open, {
      ...{ clock: systemClock, tenant: DEFAULT_TENANT, agentId, log: SILENT_LOG, onWarning: () => {} },
      fallback: this.#hasSpools ? "spool" : "queue",
      spool: this.#hasSpools ? async () => spoolOf(this.#host, agentId) : undefined,
    });
    this.#clients.push(client);
    return {
      client,
      behaviour: new AgentBehaviour(agentId, TEXTS, Math.random),
      history: this.#host.history,
      nextCall: this.nextCall,
      random: Math.random,
      answerOf: (commandId) => this.recorder.answerOf(commandId),
      onDone: () => {},
    };
  }

  /** Ends the work; resolves when all copies have their answers. */
  async stop(working: Promise<unknown>): Promise<void> {
    this.#stopping.abort();
    await working;
    await this.#copies.settled();
    for (const client of this.#clients) {
      await client.flush({ deadlineMs: FLUSH_MS });
      await client.close();
    }
  }
}

function spoolOf({ protection }: WorldHost, agentId: string): SpoolSettings {
  const { spoolKey } = protection;
  const path = join(SIMULATED_FOLDER, "spool", spoolName(DEFAULT_TENANT, agentId));
  return { path, seal: new SpoolSeal(spoolKey === null ? undefined : [spoolKey()]) };
}

export interface WriterAgentOptions {
  readonly name: string;
  /** The steps of all incarnations together that are still to take. */
  readonly left: { steps: number };
  readonly pauseMs: number;
}

const isStopped = (group: SimulatedAgents): boolean => group.stopping.aborted;

/** An agent that takes one step after the other, until none is left. */
export async function startWriterAgent(
  host: WorldHost,
  incarnation: string,
  { name, left, pauseMs }: WriterAgentOptions,
): Promise<Stop> {
  const group = new SimulatedAgents(host, incarnation);
  const context = await group.connect(name);
  const working = (async () => {
    while (left.steps > 0 && !isStopped(group)) {
      left.steps -= 1;
      await takeStep(context, context.behaviour.next(0));
      await sleep(Math.random() * pauseMs);
    }
  })();
  return () => group.stop(working);
}

/** Two agents of one type that accept offers, sometimes the same one. */
export async function startTakers(host: WorldHost, incarnation: string, agentType: string): Promise<Stop> {
  const group = new SimulatedAgents(host, incarnation);
  const kills = killsOf(host);
  const killable = (bus: Bus): Bus => killableBus(bus, "taker", kills);
  const [first, second] = await Promise.all([
    group.connect(`${agentType}-0`, killable),
    group.connect(`${agentType}-1`, killable),
  ]);
  const shared = {
    kills,
    wasRepeated: (id: string) => group.recorder.wasRepeated(id),
    stopping: group.stopping,
    firstCheckpointMs: SIMULATED_POLICIES.defaults.first_checkpoint_ms ?? 2_500,
  };
  const contexts: TakerContext[] = [
    { ...first, ...shared, rival: second },
    { ...second, ...shared, rival: first },
  ];
  const take = async (context: TakerContext): Promise<void> => {
    while (!isStopped(group)) {
      try {
        const stop = await context.client.onOffer(agentType, (offer) => takeOffer(context, offer), {
          concurrency: 2,
        });
        await new Promise((resolve) => group.stopping.addEventListener("abort", resolve, { once: true }));
        return await stop();
      } catch {
        await sleep(RETRY_MS);
      }
    }
  };
  const working = Promise.all(contexts.map(take));
  return () => group.stop(working);
}

/** A worker, which executes one offered task after the other with `runAgent`. It may fail, hang, or die with its process. */
export async function startWorker(host: WorldHost, incarnation: string, name: string): Promise<Stop> {
  const group = new SimulatedAgents(host, incarnation);
  const kills = killsOf(host);
  const { client } = await group.connect(name, (bus) => killableBus(withCalls(bus, group), "worker", kills));
  const own = currentProcess();
  const context = {
    ...{ agent: client.agentId, history: group.history, random: Math.random },
    kills,
    // The damage outlives the worker, which dies of it.
    damage: (task: string, id: string) =>
      outside(() => void host.damage(task, id).finally(() => own?.kill())),
  };
  const working = (async () => {
    while (!isStopped(group)) {
      try {
        await runAgent({
          ...{ fleet: client, type: WORKER, heartbeatMs: HEARTBEAT_MS, signal: group.stopping },
          checkpoints: { items: 1 },
          log: () => {},
          work: (run) => work(run, context),
          classify: (error) => (error instanceof WorkFailure ? error.class : classOfError(error)),
        });
      } catch {
        await sleep(Math.random() * RETRY_MS);
      }
    }
  })();
  return () => group.stop(working);
}
