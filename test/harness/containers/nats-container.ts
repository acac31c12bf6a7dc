// A nats-server in a container of the pinned image, with the configuration that `fleet access init` writes.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { writeClusterFiles } from "../../../shared/bus/access/cluster.ts";
import { freePort } from "../free-port.ts";
import { projectRoot } from "../project-root.ts";
import { type ContainerControl, containerControl, loopbackContainer } from "./loopback-container.ts";

const IMAGE = process.env.NATS_IMAGE || "nats:2.15.1-alpine";
/** A later value replaces an earlier one. */
const LISTENERS = (port: number, monitor: number) =>
  `include "./nats.conf"\nlisten: "0.0.0.0:${port}"\nhttp: "0.0.0.0:${monitor}"\n`;

export interface NatsContainer extends ContainerControl {
  readonly url: string;
  readonly monitorUrl: string;
  /** The folder with the credentials of the services. */
  readonly access: string;
}

/** `folder`: for the keys and the credentials. */
export async function startNatsContainer(folder: string): Promise<NatsContainer> {
  const access = join(folder, "access");
  const serverConfig = readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8");
  await writeClusterFiles({ keys: join(folder, "keys"), dir: access, serverConfig, now: new Date() });
  const [port, monitor] = await Promise.all([freePort(), freePort()]);
  const contents = ["nats.conf", "access.conf"].map((name) => ({
    content: readFileSync(join(access, name), "utf8"),
    target: `/etc/fleet/${name}`,
  }));
  const container = await (await loopbackContainer(IMAGE))
    .withCopyContentToContainer([
      ...contents,
      { content: LISTENERS(port, monitor), target: "/etc/fleet/server.conf" },
    ])
    .withCommand(["nats-server", "-c", "/etc/fleet/server.conf"])
    .withExposedPorts({ container: port, host: port }, { container: monitor, host: monitor })
    .start();
  const urls = { url: `nats://127.0.0.1:${port}`, monitorUrl: `http://127.0.0.1:${monitor}` };
  return { ...urls, access, ...(await containerControl(container.getId())) };
}
