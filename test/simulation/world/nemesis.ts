/** Does to a world what its story says, and undoes it. */
import { setTimeout as sleep } from "node:timers/promises";
import { NO_STORE_FAULTS } from "../store/database.ts";
import type { Story, StoryEvent } from "../story/story.ts";
import type { Supervised } from "./services.ts";
import type { World } from "./world-parts.ts";

/** What faults reach. */
type Stricken = Pick<World, "host" | "services" | "agents" | "takers">;

/** Counts the open faults of each kind. Faults of one kind that overlap end together, with the last of them. */
class OpenFaults {
  readonly #counts = new Map<string, number>();

  async endWithLast(kind: string, forMs: number, end: () => void): Promise<void> {
    this.#counts.set(kind, this.#countOf(kind) + 1);
    await sleep(forMs);
    this.#counts.set(kind, this.#countOf(kind) - 1);
    if (this.#countOf(kind) === 0) end();
  }

  #countOf(kind: string): number {
    return this.#counts.get(kind) ?? 0;
  }
}

/** Resolves when the last event is over. */
export async function play(world: Stricken, { events }: Pick<Story, "events">): Promise<void> {
  const begin = performance.now();
  const open = new OpenFaults();
  await Promise.all(
    events.map(async (event) => {
      await sleep(Math.max(1, begin + event.at - performance.now()));
      await happen(world, event, open);
    }),
  );
}

function programOf({ services, agents, takers }: Stricken, name: string): Supervised {
  const program = [...services, ...agents, ...takers].find((one) => one.name === name);
  if (program === undefined) throw new Error(`the world has no program ${name}`);
  return program;
}

async function happen(world: Stricken, event: StoryEvent, open: OpenFaults): Promise<void> {
  const { host, services, agents, takers } = world;
  switch (event.kind) {
    case "kill":
      return programOf(world, event.program).kill(event.restartMs);
    case "cut":
      return host.server.cut(programOf(world, event.program).connection);
    case "partition": {
      const { connection } = programOf(world, event.program);
      host.server.block(connection);
      return open.endWithLast(`partition of ${connection}`, event.forMs, () =>
        host.server.unblock(connection),
      );
    }
    case "restart_bus":
      host.server.stop();
      return open.endWithLast(event.kind, event.forMs, () => host.server.start());
    case "outage":
      host.outage = event.how;
      return open.endWithLast(event.kind, event.forMs, () => {
        host.outage = "none";
      });
    case "replace_root_key":
      host.protection.replaceRootKey();
      for (const one of services) {
        one.kill();
        await sleep(event.everyMs);
      }
      return;
    case "power_cut":
      if (event.machine === "agents") {
        for (const one of [...agents, ...takers]) one.kill(event.forMs);
        return host.machines.agents.cutPower();
      }
      for (const one of services) one.kill(event.forMs);
      host.machines.services.cutPower();
      host.database.cutPower();
      return open.endWithLast(event.kind, event.forMs, () => host.database.start());
  }
}

/** Ends all faults that have a probability, and waits until every service runs. The events of the story are over. */
export async function heal({ host, services }: World): Promise<void> {
  host.server.heal();
  host.database.faults = { ...NO_STORE_FAULTS, latencyMs: host.database.faults.latencyMs };
  await Promise.all(services.map((one) => one.ready()));
}
