// Containers of testcontainers whose ports only this machine reaches. The library is loaded only where an engine may answer, because it takes
// longer than most tests.
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { GenericContainer } from "testcontainers";

const LOOPBACK = "127.0.0.1";

/** Inside a container the library would look for the ports at the address of the engine, where these are not published. */
async function library(): Promise<typeof import("testcontainers")> {
  process.env.TESTCONTAINERS_HOST_OVERRIDE ??= LOOPBACK;
  return import("testcontainers");
}

/** The reason why no container can be started, in a few words. */
export async function missingContainers(): Promise<string | undefined> {
  if (!mayHaveEngine()) return "no container engine";
  const { getContainerRuntimeClient } = await library();
  return getContainerRuntimeClient().then(
    () => undefined,
    () => "no container engine",
  );
}

/** The places where an engine is found; without any, the library is not loaded. */
function mayHaveEngine(): boolean {
  const { DOCKER_HOST, XDG_RUNTIME_DIR } = process.env;
  const places = [
    "/var/run/docker.sock",
    join(homedir(), ".testcontainers.properties"),
    join(homedir(), ".docker/run/docker.sock"),
    ...(XDG_RUNTIME_DIR === undefined ? [] : [join(XDG_RUNTIME_DIR, "docker.sock")]),
  ];
  return DOCKER_HOST !== undefined || places.some((path) => existsSync(path));
}

/** A container of the image. Its ports are the same inside and outside, so that a restart keeps them. */
export async function loopbackContainer(image: string): Promise<GenericContainer> {
  const testcontainers = await library();
  class LoopbackContainer extends testcontainers.GenericContainer {
    // Without it, testcontainers publishes ports to the whole network.
    protected override async beforeContainerCreated(): Promise<void> {
      const bindings = Object.values(this.hostConfig.PortBindings ?? {}) as { HostIp?: string }[][];
      for (const binding of bindings.flat()) binding.HostIp = LOOPBACK;
    }
  }
  return new LoopbackContainer(image);
}

export interface ContainerControl {
  /** Sends SIGKILL, which has the effect of a power cut; waits until the container has ended. */
  kill(): Promise<void>;
  /** Starts it again after a kill, with the same data. */
  start(): Promise<void>;
  pause(): Promise<void>;
  continue(): Promise<void>;
  /** Removes it with its data, also while it runs. */
  remove(): Promise<void>;
}

/** What testcontainers does not offer for a container that it started. */
export async function containerControl(id: string): Promise<ContainerControl> {
  const { getContainerRuntimeClient } = await library();
  const container = (await getContainerRuntimeClient()).container.getById(id);
  return {
    async kill() {
      // It may be down already.
      await container.kill().catch(() => {});
      await container.wait();
    },
    start: async () => void (await container.start()),
    pause: async () => void (await container.pause()),
    // It may not be paused.
    continue: async () => void (await container.unpause().catch(() => {})),
    remove: async () => void (await container.remove({ force: true, v: true })),
  };
}
