/** Writes checkpoints with signatures until it is killed. Prints a line for each commit. */
import { uuidv7 } from "uuidv7";
import { signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { create } from "../../../harness/records/records.ts";
import { register, repositoryOn, storeSignedBy } from "../../../harness/records/signed.ts";

const [url, pem] = process.argv.slice(2) as [string, string];
const raw = await openStore(url);
const format = await openFormat(raw);
const key = signingKeyFrom(pem);
const store = storeSignedBy(raw, key);
await register(store, key);
const repository = repositoryOn(store, { format });
await Promise.all(
  Array.from({ length: 8 }, async (_, n) => {
    for (;;) {
      const { checkpoint_id } = await create(repository, { task: `task-${n}`, commandId: uuidv7() });
      process.stdout.write(`${checkpoint_id}\n`);
    }
  }),
);
