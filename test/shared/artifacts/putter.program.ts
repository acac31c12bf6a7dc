// Stores part after part of one upload, and names each when it is durable. Its test kills it.

import { partBytes } from "./part-bytes.ts";
import { openAddress } from "./places.ts";

const [, , address = "", upload = ""] = process.argv;
const { store } = await openAddress(address);
process.stdout.write("ready\n");
for (let part = 0; ; part += 1) {
  await store.put({ tenant: "default", upload }, part, partBytes(upload, part));
  process.stdout.write(`${part}\n`);
}
