/** The task of a checkpoint or a handoff, for paths that name none. It never changes, so it is remembered. */
import { normalizeCheckpointId } from "../../../shared/protocol/ids.ts";
import type { FleetRequests } from "./fleet-requests.ts";

const REMEMBERED = 10_000;

export class TaskLookup {
  readonly #tasks = new Map<string, string>();

  /** Throws NOT_FOUND. */
  async ofCheckpoint(fleet: FleetRequests, id: string): Promise<string> {
    return this.#find(fleet, id, async () => {
      const { checkpoint } = await fleet.ask("get", { checkpoint_id: id });
      return checkpoint.metadata.task_id;
    });
  }

  /** Throws NOT_FOUND. */
  async ofHandoff(fleet: FleetRequests, id: string): Promise<string> {
    return this.#find(
      fleet,
      id,
      async () => (await fleet.ask("handoff", { handoff_id: id })).handoff.task_id,
    );
  }

  async #find({ caller }: FleetRequests, id: string, ask: () => Promise<string>): Promise<string> {
    const name = `${caller.tenant} ${normalizeCheckpointId(id)}`;
    const known = this.#tasks.get(name);
    if (known !== undefined) return known;
    const task = await ask();
    if (this.#tasks.size >= REMEMBERED) this.#tasks.delete(this.#tasks.keys().next().value as string);
    this.#tasks.set(name, task);
    return task;
  }
}
