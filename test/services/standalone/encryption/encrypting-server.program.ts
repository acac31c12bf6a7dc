/** Starts a nats-server that encrypts the streams of a folder, and kills itself after a time: a busy test would kill it too late. */
import { startNatsServer } from "../../../../services/standalone/nats/server.ts";
import { openRootKeys } from "../../../../shared/integrity/encryption/root-keys.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { projectRoot } from "../../../harness/project-root.ts";

const [dir = "", source = "", killAfterMs = ""] = process.argv.slice(2);
const rootKeys = await openRootKeys([source], { setting: "FLEET_ENCRYPTION_KEY", env: process.env });
setTimeout(() => process.kill(process.pid, "SIGKILL"), Number(killAfterMs));
const server = await startNatsServer({
  root: projectRoot,
  env: process.env,
  dir,
  port: -1,
  log: testLog,
  rootKeys,
});
process.stdout.write("ready\n");
await server.exited;
