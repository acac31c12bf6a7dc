/** Opens a store in the folder of its argument and commits once. A separate process, which may be ended by the engine: see folder-check.ts. */
import { join } from "node:path";
import { openEnvironment } from "../../shared/store/lmdb/environment.ts";

const MAP_BYTES = 1024 * 1024;

const environment = await openEnvironment({ path: join(process.argv[2]!, "store"), mapSizeBytes: MAP_BYTES });
environment.transactionSync(() => void environment.put(Buffer.from("key"), Buffer.from("value")));
await environment.close();
