// The operations port over real HTTP.

import { once } from "node:events";
import { createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import {
  type HealthCheck,
  type OpsOptions,
  serveOps,
} from "../../../../shared/runtime/observability/ops-server.ts";
import { StartupError } from "../../../../shared/runtime/process/startup.ts";

const log = createLogger({ service: "test", level: "silent" });
const metrics = createMetrics({ service: "test" });
let stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops) await stop();
  stops = [];
});

async function serve(options: Partial<OpsOptions> = {}) {
  const { port, stop } = await serveOps({ port: 0, metrics: metrics.registry, checks: {}, log, ...options });
  stops.push(stop);
  return { stop, get: (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init) };
}

const passing: HealthCheck = async () => ({ ok: true, detail: "connected" });

test("metrics are in the text format, with its content type", async () => {
  const { get } = await serve();
  metrics.indexLag.set(42);
  const response = await get("/metrics");
  expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
  expect(await response.text()).toContain('fleet_index_lag{service="test"} 42');
});

test.each<[string, HealthCheck, boolean, string]>([
  ["passes", passing, true, "connected"],
  ["fails", async () => ({ ok: false, detail: "no servers" }), false, "no servers"],
  ["throws", () => Promise.reject(new Error("refused")), false, "refused"],
  [
    "throws at once",
    () => {
      throw new Error("not open");
    },
    false,
    "not open",
  ],
  ["hangs", () => new Promise(() => {}), false, "no answer in time"],
])("readiness with a check that %s", async (_, check, ok, detail) => {
  const { get } = await serve({ checks: { bus: passing, store: check }, checkTimeoutMs: 20 });
  const response = await get("/readyz");
  expect(response.status).toBe(ok ? 200 : 503);
  expect(await response.json()).toEqual({
    ok,
    checks: { bus: { ok: true, detail: "connected" }, store: { ok, detail } },
  });
});

test("/healthz does not depend on any check", async () => {
  const { get } = await serve({ checks: { store: async () => ({ ok: false, detail: "unavailable" }) } });
  const response = await get("/healthz");
  expect([response.status, await response.json()]).toEqual([200, { ok: true }]);
});

test.each([
  ["/", "GET", 404],
  ["/healthz?verbose", "GET", 200],
  ["/healthz", "HEAD", 200],
  ["/metrics", "POST", 405],
])("%s %s answers %i", async (path, method, status) => {
  const { get } = await serve();
  expect((await get(path, { method })).status).toBe(status);
});

test("a taken port is a start-up problem with a hint", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  stops.push(async () => other.close());
  const { port } = other.address() as { port: number };
  const error = await serveOps({ port, metrics: metrics.registry, checks: {}, log }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(StartupError);
  expect(error).toMatchObject({ details: { port }, hint: expect.stringContaining("FLEET_OPS_PORT") });
  const own = { port, metrics: metrics.registry, checks: {}, log, takenHint: "take another" };
  await expect(serveOps(own)).rejects.toMatchObject({ details: { port }, hint: "take another" });
});

test.each([null, undefined])("without a port (%s) nothing listens", async (port) => {
  const ops = await serveOps({ port, metrics: metrics.registry, checks: {}, log });
  expect(ops.port).toBe(0);
  await ops.stop();
});

test("stopping does not wait for a current request", async () => {
  const begun = Promise.withResolvers<void>();
  const slow: HealthCheck = () => {
    begun.resolve();
    return new Promise(() => {});
  };
  const { get, stop } = await serve({ checks: { slow }, checkTimeoutMs: 20_000 });
  const pending = get("/readyz").catch(() => "cut");
  await begun.promise;
  await stop();
  stops = [];
  expect(await pending).toBe("cut");
});
