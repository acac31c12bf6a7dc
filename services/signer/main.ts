/** Runs a signing service as a separate process. */

import { runMain } from "../../shared/runtime/process/main.ts";
import { readConfig } from "../../shared/runtime/settings/config.ts";
import { signerFields } from "./config.ts";
import { start } from "./signer.ts";

await runMain({
  service: "fleet-signer",
  start: (context) => start(context, readConfig(signerFields, process.env)),
});
