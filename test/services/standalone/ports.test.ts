/** A start with a taken port fails before anything is opened, and names the fleet that has the port. */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startNatsServer } from "../../../services/standalone/nats/server.ts";
import { requirePorts } from "../../../services/standalone/ports.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { serveOps } from "../../../shared/runtime/observability/ops-server.ts";
import { projectRoot } from "../../harness/project-root.ts";

const log = createLogger({ service: "test", level: "silent" });
const host = "127.0.0.1";

function wanted(home: string, natsPort: number, opsPort: number) {
  return { natsHost: host, natsPort, opsHost: host, opsPort, gatewayHost: host, gatewayPort: 0, home };
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "fleet-ports-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function bus(home: string): Promise<number> {
  mkdirSync(join(home, "nats"), { recursive: true });
  const server = await startNatsServer({
    root: projectRoot,
    env: process.env,
    dir: join(home, "nats"),
    port: -1,
    log,
  });
  onTestFinished(() => server.stop());
  return server.port;
}

async function operations(home: string): Promise<number> {
  const { registry } = createMetrics({ service: "test" });
  const identity = { service: "standalone", pid: process.pid, home };
  const ops = await serveOps({ port: 0, metrics: registry, checks: {}, log, identity });
  onTestFinished(() => ops.stop());
  return ops.port;
}

test("both ports of another fleet are one problem that names its folder and process", async () => {
  const other = folder();
  const [natsPort, opsPort] = [await bus(other), await operations(other)];
  await expect(requirePorts(wanted(folder(), natsPort, opsPort))).rejects.toMatchObject({
    message: "another fleet has the ports",
    exitCode: 69,
    details: {
      bus: `${host}:${natsPort}`,
      operations: `${host}:${opsPort}`,
      fleet: other,
      pid: process.pid,
    },
  });
  // The bus alone tells the process, and the operations port alone tells both.
  await expect(requirePorts(wanted(folder(), natsPort, 0))).rejects.toMatchObject({
    details: { bus: `${host}:${natsPort}`, pid: process.pid },
  });
  await expect(requirePorts(wanted(folder(), -1, opsPort))).rejects.toMatchObject({
    details: { operations: `${host}:${opsPort}`, fleet: other, pid: process.pid },
  });
});

test("the fleet of the folder itself is named as such; the server that a killed fleet left is no obstacle", async () => {
  const home = folder();
  const [natsPort, opsPort] = [await bus(home), await operations(home)];
  await expect(requirePorts(wanted(home, natsPort, opsPort))).rejects.toMatchObject({
    message: "the fleet of this folder runs already",
    details: { operations: `${host}:${opsPort}`, pid: process.pid },
  });
  await requirePorts(wanted(home, natsPort, 0));
});

test("another program, and one port for both", async () => {
  const server = createServer((socket) => socket.end("SSH-2.0-test\r\n")).listen(0, host);
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  await expect(requirePorts(wanted(folder(), port, 0))).rejects.toMatchObject({
    message: "ports of the fleet are taken",
    details: { bus: `${host}:${port} by another program` },
  });
  await expect(requirePorts(wanted(folder(), port, port))).rejects.toMatchObject({ exitCode: 78 });
  await expect(requirePorts({ ...wanted(folder(), 0, 4280), opsHost: "192.0.2.1" })).rejects.toMatchObject({
    message: "a host of the fleet is not an address of this machine",
  });
});
