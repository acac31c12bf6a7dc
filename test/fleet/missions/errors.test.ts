// Specialists whose work fails, as real processes of a real fleet: the mission records the error before it is handled (US-302).

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { environment } from "../../services/cli/process.ts";

const LAST = { timeout: 120_000 };
const PATIENT = { deadlineMs: 60_000 };
const MISSION = "msn-errors";
const PROGRAM = join(projectRoot, "test/fleet/missions/failing-specialist.program.ts");

let server: TestFleet;
let client: FleetClient;
/** Answers each path with the status that it names. */
const api = createServer(({ url = "" }, answer) => {
  answer.writeHead(Number(url.slice(1))).end("the model is not available");
});

beforeAll(async () => {
  server = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  client = await server.client("dispatch");
  await client.mission(MISSION).start({ title: "Implement user authentication" }, PATIENT);
  api.listen(0, "127.0.0.1");
  await once(api, "listening");
}, 120_000);
afterAll(async () => {
  api.close();
  await server.stop();
});

/** Runs the program of a specialist; resolves with its exit code and its errors. */
async function failOf(sortie: string, agent: string) {
  const url = `http://127.0.0.1:${(api.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [PROGRAM, MISSION, sortie, url], {
    env: environment({
      ...{ FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_AGENT_ID: agent },
      FLEET_SPOOL_DIR: join(server.home, "spool"),
    }),
    stdio: ["ignore", "ignore", "pipe"],
  });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const [exit] = (await once(child, "close")) as [number | null];
  return { exit, err };
}

test.each([
  ["an unhandled exception", "bug", /^TypeError: Cannot read properties of undefined/],
  ["an API error 4xx", "404", /^ApiError: status 404: the model is not available$/],
  ["an API error 5xx", "503", /^ApiError: status 503: the model is not available$/],
])(
  "US-302 %s in a sortie writes an error checkpoint with its details as a blocker",
  LAST,
  async (_what, title, blocker) => {
    const mission = client.mission(MISSION);
    const agent = `specialist-${title}`;
    const { sortieIds } = await mission.addSorties([{ title, assignedTo: agent }], PATIENT);
    const [sortie = ""] = sortieIds ?? [];
    const { exit, err } = await failOf(sortie, agent);
    // The error itself still reaches the agent's program, which ends with it.
    expect([exit, err]).toEqual([1, expect.stringMatching(/TypeError|ApiError/)]);
    const { checkpoint } = await client.latest(MISSION, PATIENT);
    expect(checkpoint?.metadata).toMatchObject({
      agent_id: agent,
      trigger: { reason: "error", details: expect.stringMatching(blocker) },
    });
    expect(checkpoint?.fleet?.recovery_context?.blockers).toEqual([expect.stringMatching(blocker)]);
    expect(checkpoint?.fleet?.sorties).toContainEqual(
      expect.objectContaining({ id: sortie, status: "in_progress" }),
    );
  },
);
