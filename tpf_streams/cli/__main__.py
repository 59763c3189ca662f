"""`python -m tpf_streams.cli`: the same as `tpf-streams`."""

from tpf_streams.cli.main import main

if __name__ == "__main__":
    main()
