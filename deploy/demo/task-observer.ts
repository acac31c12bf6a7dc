/** The observed facts about one task: the messages of its agents and the events of the fleet. */
import type { FleetClient, FleetEvent } from "../../shared/sdk/sdk.ts";
import type { AgentMessage } from "./process.ts";

const TIMEOUT_MS = 60_000;
const POLL_MS = 20;

export class TaskObserver {
  readonly taskId: string;
  readonly messages: AgentMessage[] = [];
  readonly events: FleetEvent[] = [];

  constructor(taskId: string) {
    this.taskId = taskId;
  }

  /** Records the events of the task, and calls `onEvent` for each. */
  async observe(client: FleetClient, onEvent: (event: FleetEvent) => void = () => {}): Promise<void> {
    await client.onEvent(
      (event) => {
        // Events are delivered at least once.
        if (this.events.some(({ id }) => id === event.id)) return;
        this.events.push(event);
        onEvent(event);
      },
      { taskId: this.taskId },
    );
  }

  /** The first message of this kind, of any agent or of the given one. */
  message(did: string, agent?: string): AgentMessage | undefined {
    return this.messages.find((one) => one.did === did && (agent === undefined || one.agent === agent));
  }

  /** Resolves when the condition holds. Throws after a minute. */
  async until(condition: string, holds: () => boolean | Promise<boolean>): Promise<void> {
    const deadline = performance.now() + TIMEOUT_MS;
    while (!(await holds())) {
      if (performance.now() > deadline) throw new Error(`timed out waiting until ${condition}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Resolves with the results of all promises. Throws after a minute. */
  async all<T>(condition: string, promises: readonly Promise<T>[]): Promise<T[]> {
    let results: T[] | undefined;
    void Promise.all(promises).then((found) => {
      results = found;
    });
    await this.until(condition, () => results !== undefined);
    return results ?? [];
  }
}
