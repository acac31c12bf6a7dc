import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { BusError } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

let server: ChildProcess;
let url: string;
const dir = mkdtempSync(join(tmpdir(), "fleet-nats-permission-"));

beforeAll(async () => {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  writeFileSync(
    join(dir, "nats.conf"),
    `listen: "127.0.0.1:-1"
     ports_file_dir: ${JSON.stringify(dir)}
     authorization { users = [
       { user: a, password: secret, permissions: { publish: ["fleet.cmd.default.a.>", "fleet.query.default.a.>"], subscribe: ["_INBOX.default.a.>"] } }
       { user: w, password: secret, permissions: { publish: ["_INBOX.*.*.>"], subscribe: ["fleet.cmd.>", "_INBOX.=w.>"] } }
     ] }`,
  );
  server = spawn(found.path, ["-c", join(dir, "nats.conf")], { stdio: "ignore" });
  url = await vi.waitFor(() => {
    const file = readdirSync(dir).find((name) => name.endsWith(".ports"));
    return JSON.parse(readFileSync(join(dir, file ?? "none"), "utf8")).nats[0] as string;
  });
});

afterAll(() => {
  server?.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

const open = (identity: string, pass: string, tenant?: string) =>
  connectBus({
    url,
    name: identity,
    identity,
    ...(tenant !== undefined && { tenant }),
    log: testLog,
    credentials: { user: identity, pass },
  });
const kindOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "no error",
    (error: unknown) => (error instanceof BusError ? error.kind : error),
  );
const body = Buffer.from("x");

test("wrong credentials fail with `permission`, and the error does not contain the password", async () => {
  const error = await open("a", "wrong-password").catch((failure: unknown) => failure);
  expect(error).toMatchObject({ kind: "permission" });
  expect(JSON.stringify(error)).not.toContain("wrong-password");
});

test("an agent reaches only its own subjects, and a refusal fails at once", async () => {
  const [agent, writer] = [await open("a", "secret", "default"), await open("w", "secret")];
  const stop = await writer.serve(
    "fleet.cmd.*.*.*.*",
    {
      queue: "writer",
      concurrencyMax: 10,
      waitMsMax: 30_000,
      isOwnReply: () => true,
      dropped: () => {},
      overload: () => ({ body }),
      failed: () => ({ body }),
    },
    async (message) => ({ body: Buffer.from(message.subject) }),
  );
  const answer = await agent.request("fleet.cmd.default.a.t1.create", { body }, { timeoutMs: 5_000 });
  expect(Buffer.from(answer.body).toString()).toBe("fleet.cmd.default.a.t1.create");
  const started = performance.now();
  expect(await kindOf(agent.request("fleet.cmd.default.b.t1.create", { body }, { timeoutMs: 20_000 }))).toBe(
    "permission",
  );
  expect(performance.now() - started).toBeLessThan(10_000);
  expect(await kindOf(agent.subscribe("fleet.event.>", () => {}))).toBe("permission");
  await stop();
  await agent.close();
  await writer.close();
});
