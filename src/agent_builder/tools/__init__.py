"""The trusted side of each Tool: policy, approval, effect, receipt. Imports storage, capsule and lower floors."""
