/** Does to a world what its story says, and undoes it. */
import { setTimeout as sleep } from "node:timers/promises";
import { NO_STORE_FAULTS } from "../store/database.ts";
import type { Story, StoryEvent } from "./story.ts";
import type { World } from "./world-parts.ts";

/** Resolves when the last event is over. */
export async function play(world: World, { events }: Story): Promise<void> {
  const begin = performance.now();
  await Promise.all(
    events.map(async (event) => {
      await sleep(Math.max(1, begin + event.at - performance.now()));
      await happen(world, event);
    }),
  );
}

function programOf({ services, agents, takers }: World, name: string) {
  return [...services, ...agents, ...takers].find((one) => one.name === name);
}

async function happen(world: World, event: StoryEvent): Promise<void> {
  const { host, services } = world;
  switch (event.kind) {
    case "kill":
      return programOf(world, event.program)?.kill(event.restartMs);
    case "cut":
      return host.server.cut(programOf(world, event.program)?.connection ?? "");
    case "partition": {
      const connection = programOf(world, event.program)?.connection ?? "";
      host.server.block(connection);
      await sleep(event.forMs);
      return host.server.unblock(connection);
    }
    case "restart_bus":
      host.server.stop();
      await sleep(event.forMs);
      return host.server.start();
    case "outage":
      host.outage = event.how;
      await sleep(event.forMs);
      host.outage = "none";
      return;
    case "power_cut":
      for (const one of services) one.kill(event.forMs);
      host.database.cutPower();
      await sleep(event.forMs);
      return host.database.start();
  }
}

/** Ends all faults that have a probability, and waits until every service runs. The events of the story are over. */
export async function heal({ host, services }: World): Promise<void> {
  host.server.heal();
  host.database.faults = { ...NO_STORE_FAULTS, latencyMs: host.database.faults.latencyMs };
  await Promise.all(services.map((one) => one.ready()));
}
