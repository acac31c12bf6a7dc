/** A real S3 server with Object Lock: `moto_server` (PyPI: `moto[server]`), where it is on PATH. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { AwsClient } from "aws4fetch";
import { freePort } from "../free-port.ts";

const PROGRAM = "moto_server";
const READY_MS = 100_000;

export const hasObjectStore = spawnSync(PROGRAM, ["--help"], { stdio: "ignore" }).status === 0;
if (!hasObjectStore) console.warn(`the tests with an object store are skipped: ${PROGRAM} is not on PATH`);

export const OBJECT_STORE_KEYS = { access_key_id: "AKIAEXAMPLE", secret_access_key: "secret" };

export class ObjectStore {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly client = new AwsClient({
    accessKeyId: OBJECT_STORE_KEYS.access_key_id,
    secretAccessKey: OBJECT_STORE_KEYS.secret_access_key,
    service: "s3",
    region: "us-east-1",
    retries: 0,
  });

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(): Promise<ObjectStore> {
    const port = await freePort();
    const child = spawn(PROGRAM, ["-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
    const store = new ObjectStore(child, port);
    const end = performance.now() + READY_MS;
    while (
      !(await fetch(store.url).then(
        () => true,
        () => false,
      ))
    ) {
      if (performance.now() > end || child.exitCode !== null) throw new Error(`${PROGRAM} does not start`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return store;
  }

  async makeBucket(name: string, { hasLock = true } = {}): Promise<string> {
    const headers = hasLock ? { "x-amz-bucket-object-lock-enabled": "true" } : {};
    const made = await this.client.fetch(`${this.url}/${name}`, { method: "PUT", headers });
    if (!made.ok) throw new Error(`the bucket was not made: ${made.status}`);
    return `${this.url}/${name}`;
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || !this.#child.kill()) return;
    await once(this.#child, "exit");
  }
}
