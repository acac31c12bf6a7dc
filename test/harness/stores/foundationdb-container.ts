// A FoundationDB server in a container. The port inside and outside must be the same, because the server sends its address to its clients.
import type { StartedTestContainer } from "testcontainers";
import {
  type ContainerControl,
  containerControl,
  loopbackContainer,
} from "../containers/loopback-container.ts";
import { CLI_TIMEOUT_S, type FoundationdbMachine } from "./foundationdb-machine.ts";

const IMAGE = process.env.FDB_IMAGE || "foundationdb/foundationdb:7.3.63";

export function containerMachine(port: number): FoundationdbMachine {
  let container: StartedTestContainer | undefined;
  let control: ContainerControl | undefined;
  const printed = async (...command: string[]): Promise<string> => {
    if (container === undefined) throw new Error("the container was not started");
    const { stdout, exitCode } = await container.exec(command);
    if (exitCode !== 0)
      throw Object.assign(new Error(`${command.join(" ")}: exit code ${exitCode}`), { stdout });
    return stdout;
  };
  return {
    connection: `docker:docker@127.0.0.1:${port}`,
    async start() {
      if (control !== undefined) return await control.start();
      const made = await loopbackContainer(IMAGE);
      container = await made
        .withEnvironment({ FDB_PORT: String(port), FDB_NETWORKING_MODE: "host" })
        .withExposedPorts({ container: port, host: port })
        .start();
      control = await containerControl(container.getId());
    },
    kill: async () => await control?.kill(),
    remove: async () => await control?.remove(),
    pause: async () => await control?.pause(),
    continue: async () => await control?.continue(),
    cli: (command) => printed("fdbcli", "--exec", command, "--timeout", CLI_TIMEOUT_S),
    version: () => printed("fdbserver", "--version"),
  };
}
