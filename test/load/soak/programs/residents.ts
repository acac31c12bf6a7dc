// Agents that stay and write to a task of their own: the rows of these tasks are bounded by retention.

import {
  type FleetClient,
  FleetError,
  type HeartbeatSender,
  type ReceivedOffer,
  type TaskHandle,
} from "../../../../shared/sdk/sdk.ts";
import { RESIDENT } from "./names.ts";
import { continueOffered, TAKE_MS } from "./visitors.ts";
import { AGENT_TYPE, checkpointOf, commanded, counts, noteFailure } from "./work.ts";

/** Of ten commands of a resident agent. */
const UPDATE_AT = new Set([3, 6]);
const FINALIZE_AT = new Set([9]);
const OFFERS_AT_ONCE = 8;

export class Resident {
  readonly #client: FleetClient;
  readonly #number: number;
  readonly #heartbeat: HeartbeatSender;
  #task: TaskHandle;
  #tasks = 1;
  #turns = 0;
  #steps = 0;
  #last = "";

  static async start(client: FleetClient, number: number): Promise<Resident> {
    const task = await take(client, `${RESIDENT}${number}`);
    const { id: taskId, fence } = task;
    const heartbeat = client.startHeartbeat({ state: "working", agentType: AGENT_TYPE, taskId, fence });
    const accept = (offer: ReceivedOffer) =>
      continueOffered(offer).catch((error: unknown) => {
        noteFailure("offer", error);
        throw error;
      });
    await client.onOffer(AGENT_TYPE, accept, { concurrency: OFFERS_AT_ONCE });
    return new Resident(client, number, task, heartbeat);
  }

  private constructor(client: FleetClient, number: number, task: TaskHandle, heartbeat: HeartbeatSender) {
    this.#client = client;
    this.#number = number;
    this.#task = task;
    this.#heartbeat = heartbeat;
  }

  get taskId(): string {
    return this.#task.id;
  }

  /** The next command of this agent. */
  async act(): Promise<void> {
    try {
      await this.#command();
    } catch (error) {
      // The machine was so busy that the fleet took the agent for silent: another one has completed the task.
      if (error instanceof FleetError && error.code === "FENCED") await this.#beginAnother();
      throw error;
    }
  }

  async #beginAnother(): Promise<void> {
    this.#tasks += 1;
    this.#last = "";
    this.#task = await take(this.#client, `${RESIDENT}${this.#number}-${this.#tasks}`);
    this.#heartbeat.set({ taskId: this.#task.id, fence: this.#task.fence });
  }

  async #command(): Promise<void> {
    const turn = this.#turns % 10;
    this.#turns += 1;
    if (this.#last !== "" && UPDATE_AT.has(turn)) {
      await commanded(this.#task.update(this.#last, { execution_state: { progress_percent: turn * 10 } }));
    } else if (this.#last !== "" && FINALIZE_AT.has(turn)) {
      const last = this.#last;
      this.#last = "";
      await commanded(this.#task.finalize(last, "succeeded"));
    } else {
      const { checkpointId } = await commanded(
        this.#task.checkpoint(checkpointOf(this.#number, this.#steps++)),
      );
      this.#last = checkpointId;
    }
  }
}

const take = (client: FleetClient, taskId: string): Promise<TaskHandle> =>
  client.takeTask(taskId, { heartbeats: true, deadlineMs: TAKE_MS });

/** The reads of orchestrators and tools, one after the other. */
export function readsOf(client: FleetClient, residents: readonly Resident[]): () => Promise<void> {
  let next = 0;
  const reads = [
    (one: Resident) => client.getTask(one.taskId),
    (one: Resident) => client.getCheckpointHistory(one.taskId, { limit: 10 }),
    () => client.searchCheckpoints({ text: "cursor snapshot", limit: 20 }),
    (one: Resident) => client.getLatestCheckpoint(one.taskId),
    () => client.handoffs({ limit: 20 }),
    (one: Resident) => client.getAudit(one.taskId, { limit: 20 }),
    () => client.getCheckpointsByAgent(`${RESIDENT}1`, { limit: 20 }),
    () => client.searchCheckpoints({ agentType: AGENT_TYPE, limit: 20 }),
    () => client.admin.status(),
  ] as const;
  return async () => {
    const at = next++;
    await reads[at % reads.length]!(residents[at % residents.length]!);
    counts.reads += 1;
  };
}
