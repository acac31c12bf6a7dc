/** What was seen of one task: what its agents said, and the events of the fleet. Nothing in it is supposed; whoever needs more waits for it. */
import type { FleetClient, FleetEvent } from "../../shared/sdk/sdk.ts";
import type { Said } from "./process.ts";

const PATIENCE_MS = 60_000;
/** Between two looks at what no news tells of. */
const LOOK_MS = 20;

export class Witness {
  readonly taskId: string;
  readonly said: Said[] = [];
  readonly events: FleetEvent[] = [];

  constructor(taskId: string) {
    this.taskId = taskId;
  }

  /** `tell` is called for each event when it comes. */
  async watch(client: FleetClient, tell: (event: FleetEvent) => void = () => {}): Promise<void> {
    await client.onEvent(
      (event) => {
        // At least once: a copy is no news.
        if (this.events.some(({ id }) => id === event.id)) return;
        this.events.push(event);
        tell(event);
      },
      { taskId: this.taskId },
    );
  }

  /** The first thing that an agent said it did. */
  heard(did: string, agent?: string): Said | undefined {
    return this.said.find((one) => one.did === did && (agent === undefined || one.agent === agent));
  }

  /** Resolves when it is so. Throws when that takes too long. */
  async until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
    const givenUp = performance.now() + PATIENCE_MS;
    while (!(await isSo())) {
      if (performance.now() > givenUp) throw new Error(`gave up waiting until ${what}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** The results of all. Throws when that takes too long. */
  async within<T>(what: string, all: readonly Promise<T>[]): Promise<T[]> {
    let results: T[] | undefined;
    void Promise.all(all).then((found) => {
      results = found;
    });
    await this.until(what, () => results !== undefined);
    return results ?? [];
  }
}
