/** A real runner in a separate process beside a fleet, with its own folder inside the fleet's folder. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../project-root.ts";
import type { TestFleet } from "./fleet.ts";
import { startService, type TestService } from "./services.ts";

export const EXAMPLE = [process.execPath, join(projectRoot, "deploy/examples/agent.ts")];

/** Resolves when the runner takes offers. `agents` is the section of that name in its settings file. */
export function startRunner(
  fleet: TestFleet,
  agents: Record<string, object>,
  env: Record<string, string> = {},
): Promise<TestService> {
  const folder = join(fleet.home, "runner");
  mkdirSync(folder, { recursive: true });
  const settings = join(folder, "settings.json");
  writeFileSync(settings, JSON.stringify({ grace_ms: 10_000, agents }));
  return startService("runner", {
    FLEET_URL: fleet.url,
    FLEET_HOME: fleet.home,
    FLEET_RUNNER_CONFIG: settings,
    FLEET_RUNNER_DIR: folder,
    ...env,
  });
}
