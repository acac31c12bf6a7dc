/** Loaded before a program (`node --import`): its wall clock is FLEET_TEST_SKEW_MS ahead, as on a machine without time synchronisation. */
const skewMs = Number(process.env.FLEET_TEST_SKEW_MS);
const now = Date.now;
Date.now = () => now() + skewMs;
